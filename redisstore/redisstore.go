// Package redisstore keeps the counts of guards in Redis or Valkey, so that many processes have
// one budget. It speaks to a single server, to one that Sentinels watch, and to a cluster. It
// promises what the policies promise in memory, by the server's clock: no caller gets more
// tries by going from node to node, and no live entry is dropped for another.
//
// It gives up what a process alone has: a decision takes a round trip, and there may be no
// server to decide. No call is waited for longer than a deadline; what decides while the server is
// away is chosen by name for each guard, a Mode. What a server loses, by a failover before it was
// replicated or because it keeps nothing on disk, is forgotten.
//
// One key is admitted what its policy says, and while the server is away once more by each process
// (Local), nothing (Closed), or everything (FailOpen).
//
// All nodes must be given the same Secret and Partitions, and their guards the same names. Where
// they have different limits for one rule, each judges by its own what all of them counted.
package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/doorward/doorward/redisstore/internal/line"
	"github.com/redis/rueidis"
)

// What a zero field of Options stands for, and the least that a Secret may be.
const (
	DefaultPrefix     = "doorward:"
	DefaultPartitions = 64
	DefaultDeadline   = 50 * time.Millisecond
	MaxPartitions     = 4096
	MaxDeadline       = time.Second
	MinSecret         = 16
)

// Options say where the server is and how it is spoken to.
type Options struct {
	// Addresses are host:port of the server, of some nodes of the cluster, or of the
	// Sentinels. Which of the first two it is, the server says.
	Addresses []string
	// MasterName is what the Sentinels call the server. Without it there are none.
	MasterName string
	// Username and PasswordFile are those of an ACL user. The file is read at every
	// connection, and line ends around the password are dropped. SentinelUsername and
	// SentinelPasswordFile are for the Sentinels, and read once.
	Username, PasswordFile                 string
	SentinelUsername, SentinelPasswordFile string
	// TLS is what connections are secured with, those to Sentinels too. Nil is no TLS: whoever is
	// on the way then reads and changes what is counted.
	TLS *tls.Config
	// DB is the number of the database, 0 in a cluster.
	DB int

	// Secret keys what names and addresses are called in the store: at least MinSecret bytes. With
	// another one, everything counted so far means nothing.
	Secret []byte
	// Prefix is what all keys begin with. "" is DefaultPrefix. It must not have "{" or "}".
	Prefix string
	// Partitions is how many parts the keys of a rule are kept in, each in a slot of its
	// own, with its share of the rule's Capacity. 0 is DefaultPartitions. With another
	// number, everything counted so far means nothing.
	Partitions int
	// Deadline is how long a call is waited for, at most a second. 0 is DefaultDeadline.
	Deadline time.Duration
	// InsecureAllowEviction takes a server that drops live entries when its memory is full: whoever
	// fills it ends their lockouts.
	InsecureAllowEviction bool

	dial func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) // in tests
}

// validate returns o with its defaults, or the error that names a field.
func (o Options) validate() (Options, error) {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.Partitions == 0 {
		o.Partitions = DefaultPartitions
	}
	if o.Deadline == 0 {
		o.Deadline = DefaultDeadline
	}
	switch {
	case len(o.Addresses) == 0:
		return o, errors.New("redisstore: Addresses must not be empty")
	case len(o.Secret) < MinSecret:
		return o, fmt.Errorf("redisstore: Secret must have at least %d bytes, got %d", MinSecret, len(o.Secret))
	case strings.ContainsAny(o.Prefix, "{}"):
		return o, fmt.Errorf("redisstore: Prefix must not have { or }, got %q", o.Prefix)
	case o.Partitions < 1 || o.Partitions > MaxPartitions:
		return o, fmt.Errorf("redisstore: Partitions must be 1 to %d, got %d", MaxPartitions, o.Partitions)
	case o.Deadline < 0 || o.Deadline > MaxDeadline:
		return o, fmt.Errorf("redisstore: Deadline must be positive and at most %v, got %v", MaxDeadline, o.Deadline)
	case o.DB < 0:
		return o, fmt.Errorf("redisstore: DB must not be negative, got %d", o.DB)
	case o.MasterName == "" && o.SentinelUsername+o.SentinelPasswordFile != "":
		return o, errors.New("redisstore: MasterName must be set where SentinelUsername or SentinelPasswordFile is")
	}
	return o, nil
}

// A Client is a connection to the server, for the stores of all guards of a process.
type Client struct {
	options    Options
	line       *line.Line
	ctx        context.Context
	close      context.CancelFunc
	background sync.WaitGroup

	mu      sync.Mutex
	client  rueidis.Client
	cluster bool
	err     error
}

// retry is how long a server that was not there is left alone.
const retry = time.Second

// Dial connects. An error means that Options are wrong, or that the server is there and must not
// be used: it takes no such user, or would drop live entries. A server that cannot be reached is
// no error: Dial goes on trying, and until then stores answer with Err.
func Dial(o Options) (*Client, error) {
	o, err := o.validate()
	if err != nil {
		return nil, err
	}
	l, err := line.New(line.Config{Deadline: o.Deadline})
	if err != nil {
		return nil, fmt.Errorf("redisstore: %w", err) // never: validate says so
	}
	c := &Client{options: o, line: l}
	c.ctx, c.close = context.WithCancel(context.Background())
	again, err := c.dial()
	switch {
	case err == nil:
	case !again:
		c.close()
		return nil, err
	default:
		c.background.Go(c.redial)
	}
	c.background.Go(c.watch)
	return c, nil
}

// redial dials until it need not.
func (c *Client) redial() {
	tick := time.NewTicker(retry)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := c.dial(); err == nil {
			return
		}
	}
}

// dial connects, and says whether it may be worth another try.
func (c *Client) dial() (again bool, err error) {
	client, err := c.connect()
	if err == nil {
		if again, err = c.check(client); err != nil {
			client.Close()
		}
	} else {
		again = !said(err) && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission)
	}
	if err != nil {
		err = fmt.Errorf("redisstore: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err = err; err == nil {
		c.client, c.cluster = client, client.Mode() == rueidis.ClientModeCluster
	}
	return again, err
}

func (c *Client) connect() (rueidis.Client, error) {
	o := c.options
	sentinel := rueidis.SentinelOption{MasterSet: o.MasterName, Username: o.SentinelUsername, TLSConfig: o.TLS}
	if o.MasterName != "" {
		sentinel.TopologyRefreshInterval = 5 * time.Second // a message of theirs may be lost
	}
	var err error
	if sentinel.Password, err = password(o.SentinelPasswordFile); err != nil {
		return nil, err
	}
	if _, err := password(o.PasswordFile); err != nil {
		return nil, err
	}
	return rueidis.NewClient(rueidis.ClientOption{
		InitAddress: o.Addresses, Sentinel: sentinel, TLSConfig: o.TLS, SelectDB: o.DB,
		AuthCredentialsFn: func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			p, err := password(o.PasswordFile)
			return rueidis.AuthCredentials{Username: o.Username, Password: p}, err
		},
		ClientName:   "doorward",
		DisableCache: true,
		DisableRetry: true, // an attempt that is sent twice is charged twice
		// Calls that come together go out together, by one connection: that costs less than the
		// system calls of more, for the server too.
		PipelineMultiplex: -1,
		DialCtxFn:         o.connect,
	})
}

func password(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	b, err := os.ReadFile(file)
	return strings.Trim(string(b), "\r\n"), err
}

// check asks the server whether it would drop live entries when its memory is full, and returns
// an error if so, or if it does not say. All that we keep there expires, so volatile or not makes
// no difference.
func (c *Client) check(client rueidis.Client) (again bool, err error) {
	if c.options.InsecureAllowEviction {
		return false, nil
	}
	for address, node := range client.Nodes() {
		ctx, cancel := context.WithTimeout(c.ctx, 5*time.Second)
		info, err := node.Do(ctx, node.B().Info().Section("memory").Build()).ToString()
		cancel()
		if err != nil {
			return !said(err), fmt.Errorf("%s does not say what it does when its memory is full: %w", address, err)
		}
		if policy := field(info, "maxmemory_policy"); field(info, "maxmemory") != "0" && policy != "noeviction" {
			return false, fmt.Errorf("%s has maxmemory-policy %s and drops lockouts when its memory is full; it must be noeviction", address, policy)
		}
	}
	return false, nil
}

// field returns the value of a field in what INFO says, "" if there is none.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	return ""
}

// get is a remote.Connect. As long as there was no server, it is away.
func (c *Client) get() (rueidis.Client, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, false, fmt.Errorf("%w: %w", line.ErrUnreachable, c.err)
	}
	return c.client, c.cluster, nil
}

// Err returns why there is no server yet, nil once there was one.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends all connections and what stores do in the background. Stores of this client must not
// be used any more.
func (c *Client) Close() {
	c.close()
	c.background.Wait()
	if client, _, err := c.get(); err == nil {
		client.Close()
	}
}

// connect connects as rueidis does, to a connection that yields.
func (o Options) connect(ctx context.Context, address string, d *net.Dialer, t *tls.Config) (conn net.Conn, err error) {
	switch {
	case o.dial != nil:
		conn, err = o.dial(ctx, address, d, t)
	case t != nil:
		conn, err = (&tls.Dialer{NetDialer: d, Config: t}).DialContext(ctx, "tcp", address)
	default:
		conn, err = d.DialContext(ctx, "tcp", address)
	}
	if err != nil {
		return nil, err
	}
	return yielding{conn}, nil
}

// A yielding connection lets others run before it writes. Answers come many at a time, and who waited
// for one asks again: with this, the next write has what they ask, and not each its own.
type yielding struct{ net.Conn }

func (c yielding) Write(b []byte) (int, error) {
	runtime.Gosched()
	return c.Conn.Write(b)
}
