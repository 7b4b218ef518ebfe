module github.com/doorward/doorward/redisstore

go 1.26

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/doorward/doorward v0.1.0
	github.com/redis/rueidis v1.0.79
	golang.org/x/sys v0.47.0
)
