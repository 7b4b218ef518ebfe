//go:build !steppedclock

package attack

import "time"

// canStep says whether stepClock sets the clock that time.Now reads.
const canStep = false

func stepClock(time.Duration) {}
