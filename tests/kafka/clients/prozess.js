// Reads one partition of Kafka 0.7 with prozess, a client of its time: [newest offset, earliest], then a line for each fetched message.
const { Consumer } = require('prozess');
const [host, port, topic, end] = process.argv.slice(2);
const at = (offset) => new Consumer({ host, port: Number(port), topic, partition: 0, offset });
const ask = (client, method) => new Promise((done, fail) =>
  client.connect((bad) => (bad ? fail(bad) : client[method]((error, found) => (error ? fail(error) : done(found))))));
(async () => {
  const bounds = [await ask(at(0), 'getLatestOffset'), await ask(at(0), 'getEarliestOffset')].map(String);
  console.log(JSON.stringify(bounds));
  const client = at(bounds[1]);
  await new Promise((done) => client.connect(done));
  while (Number(client.offset) < Number(bounds[0])) {
    const before = Number(client.offset);
    const messages = await new Promise((done, fail) => client.consume((error, found) => (error ? fail(error) : done(found))));
    for (const one of messages) console.log(JSON.stringify([one.isValid(), one.compression, one.payload.toString('hex')]));
    if (Number(client.offset) === before) throw new Error('no messages at ' + before);
  }
  process.exit(0);
})().catch((error) => { console.error(error); process.exit(1); });
