"""What partitions come to: verified, with statistics of what lies in them, taken in the same pass."""
