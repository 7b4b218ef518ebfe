package guard

import (
	"time"

	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/throttle"
	"github.com/doorward/doorward/window"
)

const day = 24 * time.Hour

// Presets to copy and edit. All of them count networks, IPv6 /48 and /32, and IPv4
// /24. Rules on keys that many share decay, so that a trickle of failures never
// closes them. Rules on subjects, pairs and challenges apply to requests that name
// one, and device rules where devices are known. Numbers for which no source is named
// are this project's choice: what people do on a bad day, with room, and for wider
// networks what some neighbours do on the same day.
//
// Each ends with its bound: how many attempts are admitted at worst in any span of that
// length, wrong ones where failures are counted. An address is an IPv4 address or an
// IPv6 /64.
var (
	// Login is for passwords. One address gets 5 guesses at one account before it
	// waits, and 36 at all accounts, of which one is forgotten every 40 minutes; an
	// account gets 36 from strangers before they wait, forgotten alike, and asks for a
	// stronger proof at 100, of which one is forgotten every 7.2 hours.
	//
	// NIST SP 800-63B (5.2.2) limits consecutive failures on an account to 100, and
	// suggests waits of 30 seconds up to an hour.
	//
	// Bound:
	//   - one address at one account: 5 at once, 11 in an hour, 34 in a day, 730 in 30 days
	//   - one account, from anywhere: 36 at once, 41 in an hour, 76 in a day, 1,120 in 30 days
	//   - one known device: 10 at once, 17 in an hour, 109 in a day, 2,893 in 30 days
	//   - one address in all: 36 at once, 43 in an hour, 135 in a day, 2,919 in 30 days
	//   - one IPv4 /24 or IPv6 /48: 200 at once, 210 in an hour, 402 in a day, 6,202 in 30 days
	//   - one IPv6 /32: 450 at once, 469 in an hour, 901 in a day, 13,951 in 30 days
	Login = Config{Rules: []Rule{
		lockoutRule("site32", Network, -1, 32, 450, day, time.Minute, 15*time.Minute, true),
		lockoutRule("site48", Network, -1, 48, 200, day, time.Minute, 15*time.Minute, true),
		lockoutRule("site24", Network, 24, -1, 200, day, time.Minute, 15*time.Minute, true),
		lockoutRule("network", Network, 0, 0, 36, day, 30*time.Second, 15*time.Minute, true),
		lockoutRule("subject", Subject, 0, 0, 36, day, time.Minute, time.Hour, true),
		stepUp(lockoutRule("step-up", Subject, 0, 0, 100, 30*day, 30*day, 30*day, true)),
		lockoutRule("device", Device, 0, 0, 10, day, 30*time.Second, 15*time.Minute, false),
		lockoutRule("pair", Pair, 0, 0, 5, day, 30*time.Second, time.Hour, false),
	}}

	// OneTimeCode is for codes that are sent to people: 5 guesses at each code, 5 a day
	// from one address at one account, 10 a day at one account from strangers. A new
	// code buys no new guesses (RFC 4226, 7.3, asks for a limit on attempts across
	// codes). That also means that ten requests a day from two addresses keep strangers
	// out of an account: let the application answer malformed to challenges that it
	// never gave out, which charges no subject, and know devices. A challenge's name
	// must be hard to guess, or others spend its five.
	//
	// Bound:
	//   - one code: 5 at once, 5 in an hour, 5 in a day, 121 in 30 days
	//   - one address at one account: 5 at once, 5 in an hour, 5 in a day, 135 in 30 days
	//   - one account, from anywhere: 10 at once, 10 in an hour, 10 in a day, 270 in 30 days
	//   - one known device: 10 at once, 17 in an hour, 109 in a day, 2,893 in 30 days
	//   - one address in all: 36 at once, 43 in an hour, 135 in a day, 2,919 in 30 days
	//   - one IPv4 /24 or IPv6 /48: 200 at once, 210 in an hour, 402 in a day, 6,202 in 30 days
	//   - one IPv6 /32: 450 at once, 469 in an hour, 901 in a day, 13,951 in 30 days
	OneTimeCode = Config{Rules: []Rule{
		lockoutRule("site32", Network, -1, 32, 450, day, time.Minute, 15*time.Minute, true),
		lockoutRule("site48", Network, -1, 48, 200, day, time.Minute, 15*time.Minute, true),
		lockoutRule("site24", Network, 24, -1, 200, day, time.Minute, 15*time.Minute, true),
		lockoutRule("network", Network, 0, 0, 36, day, 30*time.Second, 15*time.Minute, true),
		lockoutRule("challenge", Challenge, 0, 0, 5, day, day, day, false),
		lockoutRule("device", Device, 0, 0, 10, day, 30*time.Second, 15*time.Minute, false),
		windowRule("subject", Subject, 0, 0, 10, day),
		windowRule("pair", Pair, 0, 0, 5, day),
	}}

	// Pairing is for codes that people type from another screen: 5 guesses per address
	// before it waits (RFC 8628, 5.1: 5 tries in the life of a code), 12 per IPv6 /48 and
	// IPv4 /24, 15 per /32, then an hour's wait, and 60 failures an hour for everyone.
	//
	// Bound:
	//   - one address: 5 at once, 10 in an hour, 33 in a day, 729 in 30 days
	//   - one IPv4 /24 or IPv6 /48: 12 at once, 23 in an hour, 299 in a day, 8,651 in 30 days
	//   - one IPv6 /32: 15 at once, 29 in an hour, 374 in a day, 10,814 in 30 days
	//   - everyone: 60 at once, 119 in an hour, 1,499 in a day, 43,259 in 30 days
	Pairing = Config{Rules: pairingRules()}

	// PasswordReset is for asking for a mail: 3 an hour and 6 a day per account, 2 an
	// hour and 4 a day from one address for one account. It never locks a login. Anyone
	// can use up an account's three: its owner then waits for the mails that were sent.
	//
	// Bound:
	//   - one address at one account: 2 at once, 2 in an hour, 4 in a day, 108 in 30 days
	//   - one account, from anywhere: 3 at once, 3 in an hour, 6 in a day, 162 in 30 days
	//   - one address in all: 20 at once, 20 in an hour, 20 in a day, 540 in 30 days
	//   - one IPv4 /24 or IPv6 /48: 80 at once, 80 in an hour, 80 in a day, 2,160 in 30 days
	//   - one IPv6 /32: 200 at once, 200 in an hour, 200 in a day, 5,400 in 30 days
	PasswordReset = Config{Rules: []Rule{
		windowRule("site32", Network, -1, 32, 200, day),
		windowRule("site48", Network, -1, 48, 80, day),
		windowRule("site24", Network, 24, -1, 80, day),
		windowRule("network", Network, 0, 0, 20, day),
		windowRule("subject-hour", Subject, 0, 0, 3, time.Hour),
		windowRule("subject-day", Subject, 0, 0, 6, day),
		windowRule("pair-hour", Pair, 0, 0, 2, time.Hour),
		windowRule("pair-day", Pair, 0, 0, 4, day),
	}}

	// Recovery is for break-glass secrets: 3 guesses per address before it waits a
	// minute, doubling up to a day, 12 per IPv6 /48 and IPv4 /24, 15 per /32, then a day's
	// wait, and 60 failures a day for everyone.
	//
	// Bound:
	//   - one address: 3 at once, 8 in an hour, 13 in a day, 100 in 30 days
	//   - one IPv4 /24 or IPv6 /48: 12 at once, 12 in an hour, 23 in a day, 371 in 30 days
	//   - one IPv6 /32: 15 at once, 15 in an hour, 29 in a day, 464 in 30 days
	//   - everyone: 60 at once, 119 in an hour, 119 in a day, 1,859 in 30 days
	Recovery = Config{Rules: []Rule{
		lockoutRule("site32", Network, -1, 32, 15, day, day, day, true),
		lockoutRule("site48", Network, -1, 48, 12, day, day, day, true),
		lockoutRule("site24", Network, 24, -1, 12, day, day, day, true),
		lockoutRule("network", Network, 0, 0, 3, day, time.Minute, day, true),
		ceiling(15, 60, day),
	}}

	// Signup is for making accounts: 5 an hour and 20 a day per network, four times as
	// many per IPv6 /48 and IPv4 /24, ten times per /32.
	//
	// Bound:
	//   - one address: 5 at once, 5 in an hour, 20 in a day, 540 in 30 days
	//   - one IPv4 /24 or IPv6 /48: 20 at once, 20 in an hour, 80 in a day, 2,160 in 30 days
	//   - one IPv6 /32: 200 at once, 200 in an hour, 200 in a day, 5,400 in 30 days
	Signup = Config{Rules: []Rule{
		windowRule("site32-day", Network, -1, 32, 200, day),
		windowRule("site48-hour", Network, -1, 48, 20, time.Hour),
		windowRule("site48-day", Network, -1, 48, 80, day),
		windowRule("site24-hour", Network, 24, -1, 20, time.Hour),
		windowRule("site24-day", Network, 24, -1, 80, day),
		windowRule("network-hour", Network, 0, 0, 5, time.Hour),
		windowRule("network-day", Network, 0, 0, 20, day),
	}}

	// PushedAuthorization is for pushed authorization requests (RFC 9126): 30 a minute
	// per network, four times as many per IPv6 /48 and IPv4 /24, ten times per /32.
	//
	// Bound:
	//   - one address: 30 at once, 1,620 in an hour, 38,429 in a day, 1,152,029 in 30 days
	//   - one IPv4 /24 or IPv6 /48: 120 at once, 6,480 in an hour, 153,719 in a day, 4,608,119 in 30 days
	//   - one IPv6 /32: 300 at once, 16,200 in an hour, 384,299 in a day, 11,520,299 in 30 days
	PushedAuthorization = Config{Rules: perMinute(30)}

	// DeviceCode is for typing the user code of the device grant (RFC 8628), as Pairing.
	//
	// Bound:
	//   - one address: 5 at once, 10 in an hour, 33 in a day, 729 in 30 days
	//   - one IPv4 /24 or IPv6 /48: 12 at once, 23 in an hour, 299 in a day, 8,651 in 30 days
	//   - one IPv6 /32: 15 at once, 29 in an hour, 374 in a day, 10,814 in 30 days
	//   - everyone: 60 at once, 119 in an hour, 1,499 in a day, 43,259 in 30 days
	DeviceCode = Config{Rules: pairingRules()}

	// DeviceStart is for starting a device grant: 10 a minute per network, four times as
	// many per IPv6 /48 and IPv4 /24, ten times per /32.
	//
	// Bound:
	//   - one address: 10 at once, 540 in an hour, 12,809 in a day, 384,009 in 30 days
	//   - one IPv4 /24 or IPv6 /48: 40 at once, 2,160 in an hour, 51,239 in a day, 1,536,039 in 30 days
	//   - one IPv6 /32: 100 at once, 5,400 in an hour, 128,099 in a day, 3,840,099 in 30 days
	DeviceStart = Config{Rules: perMinute(10)}
)

func pairingRules() []Rule {
	return []Rule{
		lockoutRule("site32", Network, -1, 32, 15, time.Hour, time.Hour, time.Hour, true),
		lockoutRule("site48", Network, -1, 48, 12, time.Hour, time.Hour, time.Hour, true),
		lockoutRule("site24", Network, 24, -1, 12, time.Hour, time.Hour, time.Hour, true),
		lockoutRule("network", Network, 0, 0, 5, day, time.Minute, time.Hour, true),
		ceiling(15, 60, time.Hour),
	}
}

func perMinute(n int) []Rule {
	return []Rule{
		windowRule("site32", Network, -1, 32, 10*n, time.Minute),
		windowRule("site48", Network, -1, 48, 4*n, time.Minute),
		windowRule("site24", Network, 24, -1, 4*n, time.Minute),
		windowRule("network", Network, 0, 0, n, time.Minute),
	}
}

func lockoutRule(name string, per Per, v4, v6, free int, window, first, longest time.Duration, decay bool) Rule {
	return Rule{Name: name, Per: per, V4: v4, V6: v6, Lockout: &lockout.Policy{
		FreeFailures: free, Window: window, FirstLockout: first, MaxLockout: longest, Decay: decay,
	}}
}

func windowRule(name string, per Per, v4, v6, limit int, length time.Duration) Rule {
	return Rule{Name: name, Per: per, V4: v4, V6: v6, Window: &window.Policy{Limit: limit, Window: length, Sliding: true}}
}

// ceiling limits failures of everyone together. No network has more than a quarter of
// it to itself.
func ceiling(perSource, global int, length time.Duration) Rule {
	return Rule{Name: "ceiling", Throttle: &throttle.Policy{PerSource: perSource, Global: global, Window: length}}
}

func stepUp(r Rule) Rule {
	r.Action = StepUp
	return r
}

// Presets returns the presets by the names that configuration files use.
func Presets() map[string]Config {
	return map[string]Config{
		"login": Login, "one_time_code": OneTimeCode, "pairing": Pairing, "password_reset": PasswordReset,
		"recovery": Recovery, "signup": Signup, "pushed_authorization": PushedAuthorization,
		"device_code": DeviceCode, "device_start": DeviceStart,
	}
}
