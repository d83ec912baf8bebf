// kafkajs: prints the records of a topic, an object a line, until there are COUNT of them.
// Arguments: ADDRESS TOPIC read_committed|read_uncommitted COUNT GROUP
const { Kafka, logLevel } = require("kafkajs");

const [address, topic, isolation, count, groupId] = process.argv.slice(2);
const kafka = new Kafka({ brokers: [address], logLevel: logLevel.ERROR });
const consumer = kafka.consumer({ groupId, readUncommitted: isolation === "read_uncommitted" });
const hex = (data) => (data === null ? null : data.toString("hex"));
let left = Number(count);

async function main() {
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    eachMessage: async ({ partition, message }) => {
      console.log(JSON.stringify([partition, Number(message.offset), hex(message.key), hex(message.value)]));
      left -= 1;
      if (left === 0) setTimeout(() => consumer.disconnect().then(() => process.exit(0)), 300);
    },
  });
}

main();
