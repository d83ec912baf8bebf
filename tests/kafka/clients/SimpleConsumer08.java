import java.nio.ByteBuffer;
import java.util.*;
import kafka.api.FetchRequestBuilder;
import kafka.api.PartitionOffsetRequestInfo;
import kafka.common.TopicAndPartition;
import kafka.javaapi.FetchResponse;
import kafka.javaapi.OffsetRequest;
import kafka.javaapi.OffsetResponse;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.message.MessageAndOffset;

/** Reads a partition with the SimpleConsumer of Kafka 0.8: a line with offsets before a time (getOffsetsBefore), then a line per record. */
public class SimpleConsumer08 {
    public static void main(String[] args) throws Exception {
        String host = args[0], topic = args[2];
        int port = Integer.parseInt(args[1]), partition = Integer.parseInt(args[3]), size = Integer.parseInt(args[4]);
        long time = Long.parseLong(args[5]);
        SimpleConsumer consumer = new SimpleConsumer(host, port, 20000, 65536, "old");
        TopicAndPartition place = new TopicAndPartition(topic, partition);
        System.out.println(Arrays.toString(offsets(consumer, place, time, 1000)));
        long offset = offsets(consumer, place, -2, 1)[0], end = offsets(consumer, place, -1, 1)[0];
        while (offset < end) {
            FetchResponse found = consumer.fetch(new FetchRequestBuilder().clientId("old").addFetch(topic, partition, offset, size).build());
            if (found.hasError()) {
                System.out.println("error " + found.errorCode(topic, partition) + " at " + offset);
                return;
            }
            long before = offset;
            for (MessageAndOffset one : found.messageSet(topic, partition)) {
                if (one.offset() < before) continue;
                System.out.println("[" + partition + ", " + one.offset() + ", " + hex(one.message().key()) + ", " + hex(one.message().payload()) + "]");
                offset = one.nextOffset();
            }
            if (offset == before) throw new IllegalStateException("no records at " + offset);
        }
        consumer.close();
    }

    static long[] offsets(SimpleConsumer consumer, TopicAndPartition place, long time, int most) {
        Map<TopicAndPartition, PartitionOffsetRequestInfo> asked = new HashMap<>();
        asked.put(place, new PartitionOffsetRequestInfo(time, most));
        OffsetResponse found = consumer.getOffsetsBefore(new OffsetRequest(asked, kafka.api.OffsetRequest.CurrentVersion(), "old"));
        if (found.hasError()) throw new IllegalStateException("error " + found.errorCode(place.topic(), place.partition()));
        return found.offsets(place.topic(), place.partition());
    }

    static String hex(ByteBuffer data) {
        if (data == null) return "null";
        StringBuilder text = new StringBuilder("\"");
        while (data.hasRemaining()) text.append(String.format("%02x", data.get()));
        return text.append('"').toString();
    }
}
