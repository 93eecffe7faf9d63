#!/usr/bin/env node
// A worker: rota run … --handle 'worker:examples/workers/worker.js handled.txt'
// It appends each message to a file. See docs/workers.md.
const fs = require('fs')

function mayAct () {
  try {
    const [since, end] = fs.readFileSync(process.env.ROTA_LEASE_FILE, 'ascii').trim().split(' ').map(BigInt)
    const now = (BigInt(fs.readFileSync('/proc/uptime', 'ascii').split(' ')[0].replace('.', '')) + 1n) * 10000000n
    return since <= now && now < end
  } catch { return false }
}

async function handle (message, value) {
  if (!value.toString().trim()) return { is: 'bad', reason: 'an empty line' } // a dead letter
  if (!mayAct()) return { is: 'refused', reason: 'the lease is over' }
  fs.appendFileSync(process.argv[2], `${message.partition} ${message.token} ${message.attempt} ${value}\n`)
  return { is: 'done' }
}

let buffer = Buffer.alloc(0)
process.stdin.on('data', chunk => {
  buffer = Buffer.concat([buffer, chunk])
  for (;;) {
    const at = buffer.indexOf(10)
    if (at < 0) return
    const message = JSON.parse(buffer.subarray(0, at))
    const end = at + 1 + message.bytes
    if (buffer.length < end) return // the rest of it comes
    const value = buffer.subarray(at + 1, end)
    buffer = buffer.subarray(end)
    handle(message, value)
      .catch(e => ({ is: 'failed', reason: String(e) })) // tried again after a pause
      .then(answer => process.stdout.write(JSON.stringify({ seq: message.seq, ...answer }) + '\n'))
  }
})
