// franz-go: prints the records of a topic, an object a line, until there are COUNT of them.
// Arguments: ADDRESS TOPIC read_committed|read_uncommitted COUNT GROUP (empty: no group)
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func text(data []byte) *string {
	if data == nil {
		return nil
	}
	found := hex.EncodeToString(data)
	return &found
}

func main() {
	count, _ := strconv.Atoi(os.Args[4])
	options := []kgo.Opt{
		kgo.SeedBrokers(os.Args[1]), kgo.ConsumeTopics(os.Args[2]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	if os.Args[3] == "read_committed" {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if os.Args[5] != "" {
		options = append(options, kgo.ConsumerGroup(os.Args[5]))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	enough, cancel := context.WithTimeout(context.Background(), 120*time.Second)
	defer cancel()
	out := json.NewEncoder(os.Stdout)
	for left := count; left > 0 && enough.Err() == nil; {
		fetches := client.PollFetches(enough)
		fetches.EachError(func(topic string, partition int32, err error) { os.Stderr.WriteString(err.Error() + "\n") })
		fetches.EachRecord(func(one *kgo.Record) {
			out.Encode([]any{one.Partition, one.Offset, text(one.Key), text(one.Value)})
			left--
		})
	}
}
