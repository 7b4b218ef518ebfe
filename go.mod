module github.com/doorward/doorward

go 1.26
