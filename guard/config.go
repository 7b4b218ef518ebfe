package guard

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/throttle"
	"github.com/doorward/doorward/window"
)

// MaxRules is how many rules a guard may have.
const MaxRules = 16

// Config describes one door. It is the only description of rules there is: every
// front end fills it.
type Config struct {
	// Rules are decided together; at least one, at most MaxRules.
	Rules []Rule
	// Exempt networks pass uncharged, if the address was found as the peer or in the
	// header proper.
	Exempt []netip.Prefix
	// Blocked networks are refused, exempt or not.
	Blocked []netip.Prefix
	// Store keeps the counts. Nil keeps them in this process's memory.
	Store Store
}

// A Rule charges every attempt to one key under one policy.
type Rule struct {
	// Name is the identity of the rule in decisions, logs, reloads and stores: 1 to
	// 64 letters, digits and any of "._/-", unique in its guard. An empty name is
	// derived from what the rule charges: "network", "network6/48", "everyone"; the
	// second of a kind is "network-2".
	Name string
	// Per says what is charged.
	Per Per
	// V4 and V6 are the widths in bits of a network rule: 1 to 32 and 1 to 64, -1 if
	// the rule does not apply to the family. 0 is one subscriber: 32 and 64.
	V4, V6 int
	// Action says what the rule does when it is spent.
	Action Action
	// OnSuccess says what a success does to the failures before it.
	OnSuccess OnSuccess
	// Exactly one of these is the policy.
	//
	// Of a lockout the OnSuccess is ignored: Per and OnSuccess above decide. Its Lease
	// must be the same in all rules of a guard; 0 takes what the others have, or a
	// minute or the shortest Window.
	Lockout *lockout.Policy
	// A throttle on networks also is the ceiling for everyone: both families share it.
	Throttle *throttle.Policy
	// A window keeps every charge: it bounds work, not guesses.
	Window *window.Policy
}

// Per says what a rule charges.
type Per uint8

const (
	// Network is an IPv4 address or an IPv6 /64, or a wider network by V4 and V6.
	Network Per = iota
	// Subject is what is being guessed at: an account, a client id.
	Subject
	// Challenge is one code or session of a subject.
	Challenge
	// Pair is a subject and a network together.
	Pair
	// Device is a device known to the guard by a token.
	Device
	// Everyone is all callers together.
	Everyone
)

var pers = [...]string{"network", "subject", "challenge", "pair", "device", "everyone"}

// String returns the word used in configuration and logs.
func (p Per) String() string {
	if int(p) < len(pers) {
		return pers[p]
	}
	return "Per(" + strconv.Itoa(int(p)) + ")"
}

// Action says what a spent rule does.
type Action uint8

const (
	// Refuse refuses the attempt.
	Refuse Action = iota
	// StepUp admits the attempt and asks for a stronger proof.
	StepUp
	// Shadow only reports that it would have refused: a dry run.
	Shadow
)

// OnSuccess says what a success does to the failures that a rule counted.
type OnSuccess uint8

const (
	// ByKey clears what one caller spent against one subject: pair, challenge and
	// device rules are cleared, all others give back only the attempt itself and
	// what was cleared on the pair.
	ByKey OnSuccess = iota
	// Clear clears the key. It exists for network rules of doors that keep one
	// secret, where whoever succeeds is the only one there is; on any other door a
	// caller could wash off guesses at others by logging in to an account of their own.
	Clear
)

// Charges returns what a complete rule charges, as ParsePer reads it: "network",
// "network6/48", "subject". A rule with other widths for both families is
// "network4/24-6/48", which it does not read.
func (r Rule) Charges() string {
	if r.Per == Network {
		return r.width()
	}
	return r.Per.String()
}

// Room returns how many keys a table of a complete rule has an entry for, and how many
// tables there are: a network rule of both address families has one for each, but for a
// throttle.
func (r Rule) Room() (keys, tables int) {
	keys, _ = r.size()
	if f := r.families(); f[0] && f[1] && r.Throttle == nil {
		return keys, 2
	}
	return keys, 1
}

// width returns the name of what a network rule charges: "network", "network4/24".
func (r Rule) width() string {
	switch {
	case r.V4 == 32 && r.V6 == 64:
		return "network"
	case r.V6 < 0:
		return "network4/" + strconv.Itoa(r.V4)
	case r.V4 < 0:
		return "network6/" + strconv.Itoa(r.V6)
	}
	return fmt.Sprintf("network4/%d-6/%d", r.V4, r.V6)
}

// sameKey reports whether r and o charge the same keys.
func (r Rule) sameKey(o Rule) bool { return r.Per == o.Per && r.V4 == o.V4 && r.V6 == o.V6 }

// wide reports whether r charges a network wider than one subscriber's.
func (r Rule) wide() bool {
	return r.Per == Network && (r.V4 > 0 && r.V4 < 32 || r.V6 > 0 && r.V6 < 64)
}

// clears reports whether a success clears what r counted.
func (r Rule) clears() bool {
	switch {
	case r.Window != nil:
		return false
	case r.Throttle != nil:
		return r.Per == Pair
	}
	return r.Per == Pair || r.Per == Challenge || r.Per == Device || r.OnSuccess == Clear
}

// sameKind reports whether r and o have the same kind of policy.
func (r Rule) sameKind(o Rule) bool {
	return (r.Lockout != nil) == (o.Lockout != nil) && (r.Throttle != nil) == (o.Throttle != nil)
}

// ParsePer reads what a rule charges from its word, as configuration files have it:
// network, network4/24, network6/48, subject, challenge, pair, device, everyone. It
// returns a Rule with Per, V4 and V6 set.
func ParsePer(s string) (Rule, error) {
	for p, word := range pers {
		if s == word {
			return Rule{Per: Per(p)}, nil
		}
	}
	for family, limit := range map[string]int{"network4/": 32, "network6/": 64} {
		digits, ok := strings.CutPrefix(s, family)
		if !ok {
			continue
		}
		bits, err := strconv.Atoi(digits)
		if err != nil || bits < 1 || bits > limit || digits != strconv.Itoa(bits) {
			return Rule{}, fmt.Errorf("guard: Per %s must have 1 to %d bits, got %q", strings.TrimSuffix(family, "/"), limit, digits)
		}
		if limit == 32 {
			return Rule{V4: bits, V6: -1}, nil
		}
		return Rule{V4: -1, V6: bits}, nil
	}
	return Rule{}, fmt.Errorf("guard: Per must be network, network4/BITS, network6/BITS, subject, challenge, pair or everyone, got %q", s)
}

// Complete returns c as New uses it, with its defaults and names filled in and nothing
// of the caller's memory in it, or the error of New, which names the rule and the field.
func (c Config) Complete() (Config, error) {
	if len(c.Rules) == 0 {
		return c, fmt.Errorf("guard: Rules must not be empty")
	}
	if len(c.Rules) > MaxRules {
		return c, fmt.Errorf("guard: Rules must be at most %d, got %d", MaxRules, len(c.Rules))
	}
	rules := make([]Rule, len(c.Rules))
	for i, r := range c.Rules {
		r, err := r.complete()
		if err != nil {
			return c, fmt.Errorf("guard: rule %s: %w", label(c.Rules[i], i), err)
		}
		rules[i] = r
	}
	c.Rules = rules
	if err := nameRules(rules); err != nil {
		return c, err
	}
	if err := shareLease(rules); err != nil {
		return c, err
	}
	for i, r := range rules {
		if err := r.validate(); err != nil {
			return c, fmt.Errorf("guard: rule %q: %w", r.Name, err)
		}
		rules[i] = r.withDefaults()
	}
	var err error
	if c.Exempt, err = networks("Exempt", c.Exempt); err != nil {
		return c, err
	}
	for i, p := range c.Exempt {
		if p.Bits() == 0 {
			return c, fmt.Errorf("guard: Exempt[%d] must not be %v: it exempts everyone", i, p)
		}
	}
	c.Blocked, err = networks("Blocked", c.Blocked)
	return c, err
}

func label(r Rule, i int) string {
	if r.Name != "" {
		return strconv.Quote(r.Name)
	}
	return strconv.Itoa(i)
}

func (r Rule) complete() (Rule, error) {
	switch {
	case r.Per > Everyone:
		return r, fmt.Errorf("Per must be Network to Everyone, got %d", r.Per)
	case r.Action > Shadow:
		return r, fmt.Errorf("Action must be Refuse, StepUp or Shadow, got %d", r.Action)
	case r.Action == StepUp && r.Per != Subject:
		return r, fmt.Errorf("Action must not be StepUp unless Per is Subject")
	case r.OnSuccess > Clear:
		return r, fmt.Errorf("OnSuccess must be ByKey or Clear, got %d", r.OnSuccess)
	case r.policies() != 1:
		return r, fmt.Errorf("exactly one of Lockout, Throttle and Window must be set, got %d", r.policies())
	case r.Throttle != nil && r.Per == Everyone:
		return r, fmt.Errorf("Per must not be Everyone for a throttle: its Global is the ceiling for everyone, with Per Network")
	}
	if r.Per != Network {
		if r.V4 != 0 || r.V6 != 0 {
			return r, fmt.Errorf("V4 and V6 must be 0 unless Per is Network, got %d and %d", r.V4, r.V6)
		}
	} else {
		if r.V4 == 0 {
			r.V4 = 32
		}
		if r.V6 == 0 {
			r.V6 = 64
		}
		switch {
		case r.V4 < -1 || r.V4 > 32:
			return r, fmt.Errorf("V4 must be 1 to 32, or -1, got %d", r.V4)
		case r.V6 < -1 || r.V6 > 64:
			return r, fmt.Errorf("V6 must be 1 to 64, or -1, got %d", r.V6)
		case r.V4 < 0 && r.V6 < 0:
			return r, fmt.Errorf("V4 and V6 must not both be -1")
		}
	}
	if r.OnSuccess == Clear {
		switch {
		case r.Per == Subject || r.Per == Everyone || r.wide():
			return r, fmt.Errorf("OnSuccess must not be Clear for a key that many share")
		case r.Lockout == nil:
			return r, fmt.Errorf("OnSuccess must not be Clear unless the policy is a lockout")
		}
	}
	if r.Lockout != nil {
		p := *r.Lockout
		p.OnSuccess = lockout.TakeBack
		if r.clears() {
			p.OnSuccess = lockout.Clear
		}
		r.Lockout = &p
	}
	return r, nil
}

// nameRules checks the given names and derives the others.
func nameRules(rules []Rule) error {
	taken := map[string]bool{}
	for _, r := range rules {
		if r.Name == "" {
			continue
		}
		if !validName(r.Name) {
			return fmt.Errorf(`guard: rule name must be 1 to 64 letters, digits or any of "._/-", got %q`, r.Name)
		}
		if taken[r.Name] {
			return fmt.Errorf("guard: rule name %q must be unique", r.Name)
		}
		taken[r.Name] = true
	}
	for i := range rules {
		if rules[i].Name != "" {
			continue
		}
		base := rules[i].Per.String()
		if rules[i].Per == Network {
			base = rules[i].width()
		}
		name := base
		for n := 2; taken[name]; n++ {
			name = base + "-" + strconv.Itoa(n)
		}
		rules[i].Name, taken[name] = name, true
	}
	return nil
}

func validName(s string) bool {
	if len(s) > 64 {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("._/-", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

// shareLease gives all lockouts one lease: a permit is settled everywhere or nowhere.
func shareLease(rules []Rule) error {
	var lease time.Duration
	for _, r := range rules {
		if r.Lockout == nil {
			continue
		}
		switch l := r.Lockout.Lease; {
		case l == 0:
		case lease == 0:
			lease = l
		case l != lease:
			return fmt.Errorf("guard: rule %q: Lease must be the same in all rules, got %v and %v", r.Name, lease, l)
		}
	}
	if lease == 0 {
		lease = time.Minute
		for _, r := range rules {
			if r.Lockout != nil {
				lease = min(lease, r.Lockout.Window)
			}
		}
	}
	for _, r := range rules {
		if r.Lockout != nil {
			r.Lockout.Lease = lease
		}
	}
	return nil
}

// networks returns prefixes with IPv4-mapped ones as IPv4.
func networks(field string, prefixes []netip.Prefix) ([]netip.Prefix, error) {
	out := make([]netip.Prefix, len(prefixes))
	for i, p := range prefixes {
		switch {
		case !p.IsValid():
			return nil, fmt.Errorf("guard: %s[%d] must be a valid prefix", field, i)
		case p != p.Masked():
			return nil, fmt.Errorf("guard: %s[%d] must have no bits beyond its width, got %v: write %v", field, i, p, p.Masked())
		}
		if p.Addr().Is4In6() {
			if p.Bits() < 96 {
				return nil, fmt.Errorf("guard: %s[%d] must be IPv4 or IPv6, got %v", field, i, p)
			}
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		out[i] = p
	}
	return out, nil
}
