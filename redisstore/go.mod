module github.com/doorward/doorward/redisstore

go 1.26.0

require github.com/doorward/doorward v0.1.0
