"""What `ls` tells, from names, sizes, small files and the ends of segments."""
