// sarama: prints the records of all partitions of a topic, a list a line, up to their ends.
// Arguments: ADDRESS TOPIC read_committed|read_uncommitted COUNT
package main

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"strconv"
	"time"

	"github.com/IBM/sarama"
)

func text(data []byte) *string {
	if data == nil {
		return nil
	}
	found := hex.EncodeToString(data)
	return &found
}

func main() {
	left, _ := strconv.Atoi(os.Args[4])
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	if os.Args[3] == "read_committed" {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	consumer, err := sarama.NewConsumer([]string{os.Args[1]}, config)
	if err != nil {
		panic(err)
	}
	partitions, err := consumer.Partitions(os.Args[2])
	if err != nil {
		panic(err)
	}
	messages := make(chan *sarama.ConsumerMessage)
	for _, number := range partitions {
		one, err := consumer.ConsumePartition(os.Args[2], number, sarama.OffsetOldest)
		if err != nil {
			panic(err)
		}
		go func() {
			for message := range one.Messages() {
				messages <- message
			}
		}()
	}
	out := json.NewEncoder(os.Stdout)
	enough := time.After(120 * time.Second)
	for left > 0 {
		select {
		case one := <-messages:
			out.Encode([]any{one.Partition, one.Offset, text(one.Key), text(one.Value)})
			left--
		case <-enough:
			left = 0
		}
	}
}
