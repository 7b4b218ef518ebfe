// Package linear holds one proof, as a test: parallel histories of lockout's Attempt,
// Succeeded, Check, Reserve and Settle are linearizable, with so little capacity that
// overflow and reclaiming take part. The sequential model is written from the rules,
// not from the code. Limiters with one mistake each, and the histories that gave them
// away, show that the checker sees mistakes:
//
//	go test -tags mutants ./bench/linear -record
package linear
