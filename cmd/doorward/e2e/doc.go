// Package e2e tests the binary as its users run it, as a process, with programs that
// nobody here wrote: hydra, nginx, curl, and a network namespace in which one client
// really owns an IPv6 /48. It holds tests only.
//
// What reached the application is judged by the application's own log, never by
// what the attacking program believes.
package e2e
