// kafkajs: prints the records of topics, a list a line that begins with the number of the job.
// Argument: a file with a JSON list a line: ADDRESS, TOPIC, read_committed|read_uncommitted, COUNT of records, GROUP
const { Kafka, logLevel } = require("kafkajs");
const fs = require("fs");

const hex = (data) => (data === null ? null : data.toString("hex"));

async function read(number, [address, topic, isolation, count, groupId]) {
  const kafka = new Kafka({ brokers: [address], logLevel: logLevel.ERROR });
  const consumer = kafka.consumer({ groupId, readUncommitted: isolation === "read_uncommitted", maxWaitTimeInMs: 50 });
  let left = count;
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await new Promise((done) => {
    setTimeout(done, 120000).unref();
    consumer.run({
      eachMessage: async ({ partition, message }) => {
        const fields = [partition, Number(message.offset), hex(message.key), hex(message.value)];
        console.log(JSON.stringify([number, ...fields]));
        left -= 1;
        if (left === 0) setTimeout(done, 100);
      },
    });
  });
  await consumer.disconnect();
}

async function main() {
  const jobs = fs.readFileSync(process.argv[2], "utf8").trim().split("\n").map(JSON.parse);
  for (let number = 0; number < jobs.length; number += 1) await read(number, jobs[number]);
  process.exit(0);
}

main();
