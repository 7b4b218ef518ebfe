package proxy

import (
	"net/http"

	"github.com/doorward/doorward/door"
)

// Logged returns the place in doors of the one that a request of a log was at, -1 if it
// was at none, judged as a request is, but for what no log has: methods that its headers
// or its body name.
func Logged(doors []*door.Door, method, host, raw, authorization string) (int, door.Match) {
	if _, ok := target(method, raw); !ok || method == http.MethodConnect {
		return -1, door.None
	}
	q := door.Request{Method: method, Host: host, Target: raw, Methods: targetMethods(raw)}
	if authorization != "" {
		q.Authorization = []string{authorization}
	}
	q.AnyMethod = len(q.Methods) > maxMethods
	return door.Find(doors, q)
}
