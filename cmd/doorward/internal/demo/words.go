package demo

import (
	"fmt"
	"net"
	"strings"
)

// reachable returns the address that a client on this machine uses for listen.
func reachable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.To4() == nil {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port)
}

// welcome says what runs and what to try. Each command is one line that a shell takes
// as it is.
func welcome(listen, upstream string, rules int) string {
	at := reachable(listen)
	host, port, _ := net.SplitHostPort(at)
	post := func(password string) string {
		return fmt.Sprintf("-d username=%s -d password=%s http://%s/login", user, password, at)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `Doorward guards a login at http://%s

Behind it, at http://%s, runs a small application that knows nothing of it, as if by

  doorward serve --upstream http://%s --door '%s' --succeeded %s

Open http://%s in a browser (%s, %s), or try in another terminal:

`, at, upstream, upstream, route, succeeded, at, user, password)
	for i, try := range []struct{ what, command string }{
		{"The right password. It costs nothing, however often.",
			`curl -si ` + post(password)},
		{"A wrong one, six times. Five are tried, the sixth is not.",
			`for n in 1 2 3 4 5 6; do curl -s -o /dev/null -w '%{http_code}\n' ` + post("guess$n") + `; done`},
		{"How long to wait: see Retry-After. The right password waits too.",
			`curl -si ` + post(password)},
		{"What the application has seen of all this.",
			`curl -s http://` + at + `/ | grep seen`},
		{"A thousand guesses with hydra, sixteen at a time: of a demo just started, five are tried.",
			fmt.Sprintf(`hydra -I -l %s -x 3:3:1 -s %s %s http-post-form '/login:username=^USER^&password=^PASS^:S=Welcome'`, user, port, strings.Trim(host, "[]"))},
	} {
		fmt.Fprintf(&b, "%d. %s\n   %s\n\n", i+1, try.what, try.command)
	}
	fmt.Fprintf(&b, "%d rules are in force: five failures lock for a minute, then for two, up to an hour.\nCtrl-C ends the demo. What happens at the door:\n\n", rules)
	return b.String()
}

func farewell(tries, refused int) string {
	return fmt.Sprintf("\nThe application saw %s; %s refused.\n", count(tries, "try", "tries"), count(refused, "was", "were"))
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
