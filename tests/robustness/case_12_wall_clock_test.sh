#!/usr/bin/env bash
# No deadline, pause or timer hangs on the wall clock: it is read in server/base/clock.c alone (to be shown), and by the command that
# shows which keys have expired; waits of pthreads that count in it are not used.
found=$(grep -rnE '\b(CLOCK_REALTIME|CLOCK_TAI|gettimeofday|pthread_timedjoin_np|sem_timedwait|pthread_mutex_timedlock)\b|\btime\((NULL|0|&)' \
    --include='*.c' --include='*.h' server client proto | grep -vE '^(server/base/clock\.[ch]|client/cli/cmd_key\.c):')
if [ -n "$found" ]; then
    echo "the wall clock is used in:"
    echo "$found"
    exit 1
fi
