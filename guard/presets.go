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
var (
	// Login is for passwords. One address gets 5 guesses at one account before it
	// waits, and 36 at all accounts in a day before it waits; an account gets 36 from
	// strangers before they wait, and asks for a stronger proof after 100 failures in
	// 30 days.
	//
	// NIST SP 800-63B (5.2.2) limits consecutive failures on an account to 100, and
	// suggests waits of 30 seconds up to an hour.
	Login = Config{Rules: []Rule{
		lockoutRule("site32", Network, -1, 32, 450, day, time.Minute, 15*time.Minute, true),
		lockoutRule("site48", Network, -1, 48, 200, day, time.Minute, 15*time.Minute, true),
		lockoutRule("site24", Network, 24, -1, 200, day, time.Minute, 15*time.Minute, true),
		lockoutRule("network", Network, 0, 0, 36, day, 30*time.Second, 15*time.Minute, true),
		lockoutRule("subject", Subject, 0, 0, 36, day, time.Minute, time.Hour, true),
		stepUp(lockoutRule("step-up", Subject, 0, 0, 100, 30*day, 30*day, 30*day, false)),
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
	// before it waits (RFC 8628, 5.1: 5 tries in the life of a code), 12 an hour per
	// IPv6 /48 and IPv4 /24, 15 per /32, and 60 failures an hour for everyone.
	Pairing = Config{Rules: pairingRules()}

	// PasswordReset is for asking for a mail: 3 an hour and 6 a day per account, 2 an
	// hour and 4 a day from one address for one account. It never locks a login. Anyone
	// can use up an account's three: its owner then waits for the mails that were sent.
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
	// minute, doubling up to a day, 12 a day per IPv6 /48 and IPv4 /24, 15 per /32, and
	// 60 failures a day for everyone.
	Recovery = Config{Rules: []Rule{
		lockoutRule("site32", Network, -1, 32, 15, day, day, day, true),
		lockoutRule("site48", Network, -1, 48, 12, day, day, day, true),
		lockoutRule("site24", Network, 24, -1, 12, day, day, day, true),
		lockoutRule("network", Network, 0, 0, 3, day, time.Minute, day, true),
		ceiling(15, 60, day),
	}}

	// Signup is for making accounts: 5 an hour and 20 a day per network, four times as
	// many per IPv6 /48 and IPv4 /24, ten times per /32.
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
	PushedAuthorization = Config{Rules: perMinute(30)}

	// DeviceCode is for typing the user code of the device grant (RFC 8628), as Pairing.
	DeviceCode = Config{Rules: pairingRules()}

	// DeviceStart is for starting a device grant: 10 a minute per network, four times as
	// many per IPv6 /48 and IPv4 /24, ten times per /32.
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
