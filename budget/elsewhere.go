package budget

import (
	"math"
	"time"
)

// A Control is what limits guesses elsewhere, as its documentation says that it is set
// when nobody sets it.
type Control struct {
	Name     string
	Key      string // what it counts: address, account
	Settings string
	Note     string // what the figures leave out; empty if nothing
	Source   string // where the settings and the way of counting are documented
	most     func(span int64) int64
}

// Most returns the most guesses that one key gets in a span of this length from a clean
// start, by the best strategy, each guess wrong.
func (c Control) Most(span time.Duration) int64 {
	if span <= 0 {
		return 0
	}
	return c.most(int64(span))
}

// ban returns the bound of controls that count to free, then refuse for banned and have
// forgotten everything by then; and that forget failures window after the last of them.
// What a caller does is any number of rounds of free-1 in a window each, of rounds of
// free in a ban each, and free in the end.
func ban(free int64, window, banned time.Duration) func(int64) int64 {
	return func(span int64) int64 {
		w, b := int64(window), int64(banned)
		best := free
		// After n rounds of the one kind all others are of the other kind.
		try := func(n, cost, worth, otherCost, otherWorth int64) {
			if left := span - 1 - mul(n, cost); left >= 0 {
				best = max(best, add(free, add(mul(n, worth), mul(left/otherCost, otherWorth))))
			}
		}
		// Of the dearer kind fewer than free are worth it: free-1 rounds of one admit as
		// many as free of the other.
		for n := range free {
			try(n, b, free, w, free-1)
			try(n, w, free-1, b, free)
		}
		return best
	}
}

// climbing returns the bound of controls whose lockouts follow a ladder, and that forget
// failures window after the last of them, whatever lockout it started: window is at
// least the longest.
func climbing(free int64, window time.Duration, l ladder) func(int64) int64 {
	return func(span int64) (best int64) {
		for m := int64(0); m <= (span-1)/int64(window); m++ {
			best = max(best, add(mul(m+1, free), l.climb(m+1, span-1-m*int64(window))))
		}
		return best
	}
}

// steps returns a ladder of n lengths, of which each holds for width lockouts.
func steps(n, width int, first time.Duration) (l ladder) {
	for i := range n * width {
		l = append(l, int64(first)*int64(i/width+1))
	}
	return l
}

const never = time.Duration(math.MaxInt64)

// Elsewhere returns what people run elsewhere. Behind each stands the way it counts,
// reduced to what a single caller can make of it.
func Elsewhere() []Control {
	perConnection := func(n int64, most func(int64) int64) func(int64) int64 {
		return func(span int64) int64 { return mul(n, most(span)) }
	}
	penalties := decaying{ladder: ladder{int64(20 * time.Second)}, free: 4, step: int64(5 * time.Second)}
	return []Control{
		{"OpenSSH before 9.8", "connection", "MaxAuthTries 6, no limit on connections in a time",
			"as many as connections can be made: none are refused for failures", "https://man.openbsd.org/sshd_config",
			func(int64) int64 { return math.MaxInt64 }},
		{"OpenSSH 9.8 and later", "address", "PerSourcePenalties authfail:5s min:15s max:10m, MaxAuthTries 6",
			"connections one after the other: each costs 5 s, of which 15 s may be owed", "https://man.openbsd.org/sshd_config, srclimit.c",
			perConnection(6, penalties.most)},
		{"fail2ban", "address", "maxretry 5, findtime 10m, bantime 10m",
			"as documented; the count in memory is an estimate that lets some more through, and logs are read late", "config/jail.conf of fail2ban 1.0.2",
			ban(5, 10*time.Minute, 10*time.Minute)},
		{"Keycloak, multiple", "account", "failureFactor 30, waitIncrement 1m, maxWait 15m, failureReset 12h (off unless enabled)",
			"guesses at least a second apart", "https://www.keycloak.org/docs/latest/server_admin/#password-guess-brute-force-attacks",
			climbing(30, 12*time.Hour, append(steps(14, 30, time.Minute), int64(15*time.Minute)))},
		{"Keycloak, linear", "account", "the same, strategy linear",
			"guesses at least a second apart", "https://www.keycloak.org/docs/latest/server_admin/#password-guess-brute-force-attacks",
			climbing(30, 12*time.Hour, steps(15, 1, time.Minute))},
		{"Authelia", "account", "max_retries 3, find_time 2m, ban_time 5m",
			"", "https://www.authelia.com/configuration/security/regulation/",
			ban(3, 2*time.Minute, 5*time.Minute)},
		{"Vault", "account", "lockout_threshold 5, lockout_duration 15m, lockout_counter_reset 15m",
			"", "https://developer.hashicorp.com/vault/docs/concepts/user-lockout",
			ban(5, 15*time.Minute, 15*time.Minute)},
		{"pam_faillock", "account", "deny 3, fail_interval 900, unlock_time 600",
			"check and count are two steps: guesses sent together may pass both", "https://man7.org/linux/man-pages/man5/faillock.conf.5.html",
			ban(3, 15*time.Minute, 10*time.Minute)},
		{"Devise lockable", "account", "maximum_attempts 20, unlock_in 1h",
			"", "https://github.com/heartcombo/devise, lib/devise.rb",
			ban(20, never, time.Hour)},
		{"NIST SP 800-63B", "account", "at most 100 consecutive failures",
			"in all: the account stays disabled", "https://pages.nist.gov/800-63-3/sp800-63b.html, 5.2.2; revision 4: 3.2.2",
			ban(100, never, never)},
	}
}
