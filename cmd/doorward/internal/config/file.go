package config

import (
	"net"
	"strings"
)

// A file is what a configuration file holds. The decoder takes keys and types from
// here, and there is no other description of them.
type file struct {
	Listen    listenFile           `yaml:"listen"`
	Upstream  upstream             `yaml:"upstream"`
	Upstreams []upstream           `yaml:"upstreams"`
	Health    *healthFile          `yaml:"health"`
	Reuse     reuseFile            `yaml:"reuse"`
	Clients   *clientsFile         `yaml:"clients"`
	Realms    map[string]realmFile `yaml:"realms"`
	Doors     []doorFile           `yaml:"doors"`
	Devices   *devicesFile         `yaml:"devices"`
	State     *stateFile           `yaml:"state"`
	Store     *storeFile           `yaml:"store"`
	Audit     *auditFile           `yaml:"audit"`
	Admin     *adminFile           `yaml:"admin"`
	Log       logFile              `yaml:"log"`
	Timeouts  timeoutsFile         `yaml:"timeouts"`
	Limits    limitsFile           `yaml:"limits"`
}

// healthFile says how copies of the application are checked.
type healthFile struct {
	Path           string   `yaml:"path"`
	Every          interval `yaml:"every"`
	Timeout        interval `yaml:"timeout"`
	Statuses       statuses `yaml:"statuses"`
	UnhealthyAfter positive `yaml:"unhealthy_after"`
	HealthyAfter   positive `yaml:"healthy_after"`
}

// reuseFile says which connections to the application are used again.
type reuseFile struct {
	Idle        interval `yaml:"idle"`
	ReadsBodies bool     `yaml:"reads_bodies"`
	Spare       positive `yaml:"spare"`
}

type clientsFile struct {
	Header         string    `yaml:"header"`
	TrustedProxies []network `yaml:"trusted_proxies"`
	Hops           int       `yaml:"hops"`
	TrustUnix      bool      `yaml:"trust_unix"`
}

type realmFile struct {
	Preset  preset     `yaml:"preset"`
	Rules   []ruleFile `yaml:"rules"`
	Exempt  []network  `yaml:"exempt"`
	Blocked []network  `yaml:"blocked"`
	Away    away       `yaml:"when_store_is_away"`
}

type doorFile struct {
	Name            string      `yaml:"name"`
	Routes          []string    `yaml:"routes"`
	IgnoreCase      bool        `yaml:"ignore_case"`
	When            when        `yaml:"when"`
	Subject         *sourceFile `yaml:"subject"`
	SubjectOptional bool        `yaml:"subject_optional"`
	Challenge       *sourceFile `yaml:"challenge"`
	Outcome         outcomeFile `yaml:"outcome"`
	Realm           string      `yaml:"realm"`
	Preset          preset      `yaml:"preset"`
	Rules           []ruleFile  `yaml:"rules"`
	Exempt          []network   `yaml:"exempt"`
	Blocked         []network   `yaml:"blocked"`
	Away            away        `yaml:"when_store_is_away"`
	MaxBody         size        `yaml:"max_body"`
	MaxInFlight     positive    `yaml:"max_in_flight"`
}

// ruled is what of a door a realm has instead.
func (f *doorFile) ruled() realmFile {
	return realmFile{Preset: f.Preset, Rules: f.Rules, Exempt: f.Exempt, Blocked: f.Blocked, Away: f.Away}
}

// sourceFile says where requests name something: one of its keys is given.
type sourceFile struct {
	Form      string `yaml:"form"`
	JSON      string `yaml:"json"`
	Header    string `yaml:"header"`
	Query     string `yaml:"query"`
	BasicAuth bool   `yaml:"basic_auth"`
	Path      string `yaml:"path"`
}

type devicesFile struct {
	KeyFiles []string `yaml:"key_files"`
	Cookie   string   `yaml:"cookie"`
	TTL      interval `yaml:"ttl"`
}

type stateFile struct {
	File    string   `yaml:"file"`
	KeyFile string   `yaml:"key_file"`
	Every   interval `yaml:"every"`
}

type auditFile struct {
	File      string     `yaml:"file"`
	Mode      mode       `yaml:"mode"`
	KeyFile   string     `yaml:"key_file"`
	Attempts  bool       `yaml:"attempts"`
	Redact    redactFile `yaml:"redact"`
	Request   *bool      `yaml:"request"`
	Burst     positive   `yaml:"burst"`
	PerSecond positive   `yaml:"per_second"`
	MaxSize   size       `yaml:"max_size"`
	Keep      positive   `yaml:"keep"`
}

type redactFile struct {
	IPv4 positive `yaml:"ipv4"`
	IPv6 positive `yaml:"ipv6"`
}

type outcomeFile struct {
	Failed    conditionsFile `yaml:"failed"`
	Succeeded conditionsFile `yaml:"succeeded"`
	Void      voidFile       `yaml:"void"`
	Header    bool           `yaml:"header"`
}

type conditionsFile struct {
	Status    statuses `yaml:"status"`
	SetCookie string   `yaml:"set_cookie"`
	Location  string   `yaml:"location"`
}

type voidFile struct {
	Status statuses `yaml:"status"`
}

type ruleFile struct {
	Name      string        `yaml:"name"`
	Per       per           `yaml:"per"`
	OnSuccess onSuccess     `yaml:"on_success"`
	Shadow    bool          `yaml:"shadow"`
	StepUp    bool          `yaml:"step_up"`
	Lockout   *lockoutFile  `yaml:"lockout"`
	Throttle  *throttleFile `yaml:"throttle"`
	Window    *windowFile   `yaml:"window"`
}

type lockoutFile struct {
	FreeFailures int      `yaml:"free_failures"`
	Window       duration `yaml:"window"`
	FirstLockout duration `yaml:"first_lockout"`
	MaxLockout   duration `yaml:"max_lockout"`
	Decay        bool     `yaml:"decay"`
	Lease        interval `yaml:"lease"`
	Capacity     positive `yaml:"capacity"`
	InFlight     positive `yaml:"in_flight"`
}

type throttleFile struct {
	PerSource positive `yaml:"per_source"`
	Global    positive `yaml:"global"`
	Window    interval `yaml:"window"`
	Sources   positive `yaml:"sources"`
	InFlight  positive `yaml:"in_flight"`
}

type windowFile struct {
	Limit    positive `yaml:"limit"`
	Window   interval `yaml:"window"`
	Sliding  bool     `yaml:"sliding"`
	Capacity positive `yaml:"capacity"`
	InFlight positive `yaml:"in_flight"`
}

type logFile struct {
	Format logFormat `yaml:"format"`
	Level  logLevel  `yaml:"level"`
}

type timeoutsFile struct {
	ReadHeader interval `yaml:"read_header"`
	Body       interval `yaml:"body"`
	Response   interval `yaml:"upstream_response"`
	Write      interval `yaml:"write"`
	Idle       interval `yaml:"idle"`
	Shutdown   interval `yaml:"shutdown"`
}

type limitsFile struct {
	HeaderBytes size     `yaml:"header_bytes"`
	BodyBytes   size     `yaml:"body_bytes"`
	Connections positive `yaml:"connections"`
	PerNetwork  positive `yaml:"connections_per_network"`
	InFlight    positive `yaml:"in_flight"`
}

// splitHostPort is net.SplitHostPort for hosts that may be listened on.
func splitHostPort(s string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(s)
	if err == nil && strings.ContainsAny(host, " /@?#") {
		err = &net.AddrError{Err: "no host", Addr: s}
	}
	return host, port, err
}
