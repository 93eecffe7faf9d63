#!/usr/bin/env node
// Acts on its partition, and looks at its lease directly before each act:
// rota run … --source none:?partitions=8 --own 'exec:examples/lease/look.js acts.txt'
// Node has no call for CLOCK_BOOTTIME: process.hrtime stands still in suspend. /proc/uptime
// is that clock in hundredths of a second, cut off: one hundredth is added, so that the
// look is refused too early rather than too late.
const fs = require('fs')

function bootTime () {
  const [up] = fs.readFileSync('/proc/uptime', 'ascii').split(' ')
  return (BigInt(up.replace('.', '')) + 1n) * 10000000n
}

function look () { // the clock, if this command may act; otherwise 0
  try {
    const text = fs.readFileSync(process.env.ROTA_LEASE_FILE, 'ascii') // the file first, then the clock
    const [since, end] = text.trim().split(' ').map(BigInt)
    const now = bootTime()
    return since <= now && now < end ? now : 0n
  } catch {
    return 0n
  }
}

function note (word, now) {
  fs.appendFileSync(process.argv[2], `${word} ${process.env.ROTA_PARTITION} ${process.env.ROTA_TOKEN} ${now}\n`)
}

function act () {
  const now = look()
  if (!now) {
    note('refused', bootTime())
    process.exit(77) // for a handler of messages: nothing is settled
  }
  note('acts', now)
  setTimeout(act, 20)
}

act()
