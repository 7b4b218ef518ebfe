package reader

import (
	"net/netip"
	"time"
)

// logins remembers the last failures, to tell a second line of one login from a login of
// its own.
type logins struct {
	last [16]login
	next int
}

type login struct {
	addr netip.Addr
	at   time.Time
}

// apart is the most that is between two lines of one login.
const apart = 2 * time.Second

// paired notes a first line; of a line that can be a second one it reports whether it is.
func (l *logins) paired(addr netip.Addr, at time.Time, second bool) bool {
	if !second {
		l.last[l.next%len(l.last)] = login{addr, at}
		l.next++
		return false
	}
	for i := range l.last {
		p := &l.last[i]
		if p.addr == addr && addr.IsValid() && at.Sub(p.at).Abs() <= apart {
			*p = login{}
			return true
		}
	}
	return false
}
