#!/bin/bash
# Acts on its partition, and looks at its lease directly before each act. For example:
#   rota run … --source none:?partitions=8 --own 'exec:examples/lease/look.sh acts.txt'
# No program is started for a look. /proc/uptime is CLOCK_BOOTTIME in hundredths of a
# second, cut off: one hundredth is added, so that the look is refused too early rather
# than too late.

look() { # succeeds while this command may act
  local since end up
  read -r since end <"$ROTA_LEASE_FILE" || return # the file first, then the clock
  read -r up _ </proc/uptime || return
  now=$(((10#${up/./} + 1) * 10000000))
  ((since <= now && now < end))
}

now=0
while look; do
  echo "acts $ROTA_PARTITION $ROTA_TOKEN $now" >>"$1"
  sleep 0.02
done
echo "refused $ROTA_PARTITION $ROTA_TOKEN $now" >>"$1"
exit 77 # for a handler of messages: nothing is settled
