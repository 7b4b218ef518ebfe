package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	upstreams "github.com/doorward/doorward/cmd/doorward/internal/upstream"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/outcome"
)

type text string

func (t *text) set(s scalar) error {
	*t = text(s.text)
	if s.tag != "!!str" {
		return errors.New("must be text")
	}
	if s.text == "" {
		return errors.New("must not be empty")
	}
	return nil
}

type boolean bool

func (b *boolean) set(s scalar) error {
	*b = s.text == "true"
	if s.tag != "!!bool" || s.text != "true" && s.text != "false" {
		return errors.New("must be true or false")
	}
	return nil
}

type number int

func (n *number) set(s scalar) error {
	i, err := strconv.Atoi(s.text)
	*n = number(i)
	// No octal, no hexadecimal, no underscores: what one reader takes for ten is
	// eight to the next.
	if err != nil || s.quoted || s.text != strconv.Itoa(i) {
		return errors.New("must be a whole number")
	}
	return nil
}

// positive is a number that has a default, which 0 would not be taken for.
type positive int

func (n *positive) set(s scalar) error {
	if err := (*number)(n).set(s); err != nil {
		return err
	}
	if *n <= 0 {
		return errors.New("must be positive (leave it out for the default)")
	}
	return nil
}

// duration is written as Go does, with d for days: 90s, 1h30m, 1d12h.
type duration time.Duration

func (d *duration) set(s scalar) error {
	v, ok := ParseDuration(s.text)
	*d = duration(v)
	if !ok || s.tag != "!!str" && s.text != "0" {
		return errors.New("must be a duration such as 1m or 24h")
	}
	return nil
}

// ParseDuration reads what ShowDuration writes, and what time.ParseDuration reads.
func ParseDuration(s string) (time.Duration, bool) {
	days, rest, hasDays := strings.Cut(s, "d")
	if !hasDays {
		v, err := time.ParseDuration(s)
		return v, err == nil
	}
	n, err := strconv.ParseUint(days, 10, 31)
	const most = math.MaxInt64 / (24 * time.Hour)
	if err != nil || time.Duration(n) > most {
		return 0, false
	}
	v := time.Duration(0)
	if rest != "" {
		if v, err = time.ParseDuration(rest); err != nil || strings.ContainsAny(rest, "+-") {
			return 0, false
		}
	}
	v += time.Duration(n) * 24 * time.Hour
	return v, v >= 0
}

// ShowDuration writes a duration as a file would have it: 1m, not 1m0s, and 30d.
func ShowDuration(d time.Duration) string {
	days := ""
	if n := d / (24 * time.Hour); n > 0 {
		days = fmt.Sprintf("%dd", n)
		if d %= 24 * time.Hour; d == 0 {
			return days
		}
	}
	s := d.String()
	if d < time.Minute {
		return days + s
	}
	if rest, ok := strings.CutSuffix(s, "m0s"); ok {
		s = rest + "m"
	}
	if rest, ok := strings.CutSuffix(s, "h0m"); ok {
		s = rest + "h"
	}
	return days + s
}

// interval is a duration that must be positive.
type interval time.Duration

func (d *interval) set(s scalar) error {
	if err := (*duration)(d).set(s); err != nil {
		return err
	}
	if *d <= 0 {
		return errors.New("must be positive (leave it out for the default)")
	}
	return nil
}

// size is a positive number of bytes: 65536, 64KiB, 1MiB.
type size int64

func (b *size) set(s scalar) error {
	digits, unit := s.text, int64(1)
	for suffix, factor := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if rest, ok := strings.CutSuffix(s.text, suffix); ok {
			digits, unit = rest, factor
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || digits != strconv.FormatInt(n, 10) || n <= 0 || n > math.MaxInt64/unit {
		return errors.New("must be a size such as 65536, 64KiB or 1MiB")
	}
	*b = size(n * unit)
	return nil
}

func showSize(n int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.size && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	if n == 1 {
		return "1 byte"
	}
	return strconv.FormatInt(n, 10) + " bytes"
}

type network struct{ netip.Prefix }

func (p *network) set(s scalar) error {
	var err error
	if p.Prefix, err = netip.ParsePrefix(s.text); err == nil && s.tag == "!!str" {
		return nil
	}
	if addr, err := netip.ParseAddr(s.text); err == nil && addr.Zone() == "" {
		return fmt.Errorf("must be a network, for one address %v", netip.PrefixFrom(addr, addr.BitLen()))
	}
	return errors.New("must be a network such as 192.0.2.0/24 or 2001:db8::/32")
}

// address is what to listen on: a host and a port, or a path.
type address string

func (a *address) set(s scalar) error {
	*a = address(s.text)
	if path, ok := strings.CutPrefix(s.text, unixPrefix); ok {
		// Abstract sockets have no mode: everybody on the machine could connect.
		if path == "" || strings.HasPrefix(path, "@") || strings.HasSuffix(path, "/") {
			return errors.New("must be unix: and the path of a socket, such as unix:/run/doorward.sock")
		}
		return nil
	}
	_, port, err := splitHostPort(s.text)
	if err != nil || s.tag != "!!str" {
		return errors.New("must be an address and a port such as 127.0.0.1:8080, or unix:/PATH")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return errors.New("must have a port from 0 to 65535")
	}
	return nil
}

var errNoUpstream = errors.New("must be a URL such as http://127.0.0.1:3000")

// upstream is where requests go.
type upstream struct{ *url.URL }

func (u *upstream) set(s scalar) error {
	parsed, err := url.Parse(s.text)
	switch {
	case err != nil || s.tag != "!!str":
		return errNoUpstream
	case parsed.Scheme == "unix":
		if err := upstreams.Check(parsed); err != nil {
			return err
		}
		u.URL = parsed
		return nil
	case parsed.Scheme != "http" && parsed.Scheme != "https" && parsed.Scheme != "h2c" || parsed.Hostname() == "":
		return errNoUpstream
	case parsed.User != nil:
		return errors.New("must have no user and password")
	case parsed.Path != "" && parsed.Path != "/":
		return errors.New("must have no path, requests are passed on as they came")
	case parsed.RawQuery != "" || parsed.ForceQuery || parsed.Fragment != "" || strings.Contains(s.text, "#"):
		return errors.New("must have no query and no fragment")
	}
	if port := parsed.Port(); port != "" || strings.HasSuffix(parsed.Host, ":") {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return errors.New("must have a port from 1 to 65535")
		}
	}
	parsed.Path = ""
	u.URL = parsed
	return nil
}

// per is what a rule charges.
type per struct{ guard.Rule }

func (p *per) set(s scalar) error {
	r, err := guard.ParsePer(s.text)
	p.Rule = r
	if err != nil {
		return errors.New("must be network, network4/1 to network4/32, network6/1 to network6/64, subject, challenge, pair, device or everyone")
	}
	return nil
}

// preset names rules that guard has.
type preset string

func (p *preset) set(s scalar) error {
	return oneOf((*string)(p), s, slices.Sorted(maps.Keys(guard.Presets()))...)
}

type onSuccess guard.OnSuccess

func (o *onSuccess) set(s scalar) error {
	switch s.text {
	case "by_key":
		*o = onSuccess(guard.ByKey)
	case "clear":
		*o = onSuccess(guard.Clear)
	default:
		return errors.New("must be by_key or clear")
	}
	return nil
}

// statuses is one status or range, or a list of them: 200, 2xx, [200-299, 302].
type statuses struct{ outcome.Statuses }

func (st *statuses) add(s scalar) error {
	list, err := outcome.ParseStatuses(s.text)
	if err != nil || s.tag != "!!int" && s.tag != "!!str" {
		return errors.New("must be statuses from 200 to 599 such as 302, 2xx or 200-299")
	}
	st.Statuses = append(st.Statuses, list...)
	return nil
}

// oneOf checks a value that is one of a few words.
func oneOf(to *string, s scalar, words ...string) error {
	for _, w := range words {
		if s.text == w {
			*to = w
			return nil
		}
	}
	return errors.New("must be " + strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1])
}

type logFormat string

func (f *logFormat) set(s scalar) error { return oneOf((*string)(f), s, "text", "json") }

type logLevel string

func (l *logLevel) set(s scalar) error {
	return oneOf((*string)(l), s, "debug", "info", "warn", "error")
}

type when string

func (w *when) set(s scalar) error {
	*w = when(s.text)
	if s.text != "basic_auth" {
		return errors.New("must be basic_auth (leave it out to count every request)")
	}
	return nil
}
