//go:build steppedclock

package attack

import "time"

// canStep says whether stepClock sets the clock that time.Now reads.
const canStep = true

// stepClock sets the wall clock ahead by d, as an administrator would: the monotonic
// clock runs on. Package time has StepWall only in the overlay that Overlay writes.
func stepClock(d time.Duration) { time.StepWall(d) }
