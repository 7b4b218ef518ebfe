# make test     everything that must hold before a change lands; installs what it needs
# make fuzz     every fuzz target for FUZZTIME (default 1m) each
# make bench    what decisions cost, beside other limiters: docs/benchmarks.md
# make attacks  what gets through, beside other limiters: docs/attacks.md
# make redis    what limiters do on one Redis server
# make speed    what serve costs beside a bare reverse proxy
# make soak     300 rounds of the soak, and 1,000 times kill -9: some minutes
# make chaos    kills, pauses, partitions and failovers of Redis, ten times each: a quarter of an hour
# make man      manual pages, in man/
# make tidy     go.mod and go.sum of all modules

# Nested modules require the core, and redisstore, by version and carry no replace. They are
# tidied through a copy of their go.mod that has them.
NESTED = bench cmd/doorward redisstore
MODULES = . $(NESTED)
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME = 1m

# Programs that nobody here wrote and that the tests, and bench, talk to.
DEBIAN = curl fail2ban ffuf haproxy hydra iproute2 libsqlite3-0 logrotate mandoc nginx-light nodejs openssl patator php-cli prometheus python3 redis-server tmux wrk

.PHONY: test tools lint race fuzz bench attacks redis speed soak chaos man tidy

test: tools lint race

tools:
	@set -e; missing=; for p in curl fail2ban-server ffuf haproxy hydra ip logrotate mandoc nginx node openssl patator php promtool python3 redis-server tmux wrk; do PATH="$$PATH:/usr/sbin:/sbin" command -v $$p >/dev/null || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then \
		echo "installing$$missing"; sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
		$$sudo apt-get update -qq; \
		$$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(DEBIAN); \
	fi
	@# Unpacked, not installed: its installation registers the machine with a service.
	@set -e; command -v crowdsec >/dev/null || { \
		echo "unpacking crowdsec"; sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
		tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; cd "$$tmp"; $$sudo apt-get update -qq; \
		apt-get download -qq crowdsec; dpkg -x crowdsec_*.deb .; \
		$$sudo install -D -m 755 usr/bin/crowdsec /usr/local/bin/crowdsec; \
		$$sudo mkdir -p /usr/share/crowdsec; $$sudo cp -r usr/share/crowdsec/hub /usr/share/crowdsec/; }

lint:
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi
	go vet work
	@set -e; for m in $(MODULES); do echo "staticcheck $$m"; (cd $$m && go run $(STATICCHECK) ./...); done

# Not under the race detector: budget, where nothing is shared and searches are long, and
# bench, whose tests are the short form of bench and attacks: they fail when an attack
# gets further, something allocates or a key grows, never on time.
race:
	go test -race $$(go list work | grep -v '/budget$$\|/bench/')
	go test ./budget
	go test -tags mutants ./bench/...

# go test runs one target of one package at a time.
fuzz:
	@set -e; for m in $(MODULES); do (cd $$m && for p in $$(go list ./...); do \
		for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
			echo "$$p $$f"; go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$p; \
		done; \
	done); done

bench: tools
	go run ./bench/cmd/speed

attacks:
	go run ./bench/cmd/attacks

redis: tools
	go run ./bench/cmd/redis

speed:
	go run ./cmd/doorward/internal/speed

soak:
	DOORWARD_SOAK=300 go test -count=1 -timeout 30m -v -run '^TestSoak$$' ./cmd/doorward/internal/proxy
	DOORWARD_KILLS=1000 go test -count=1 -timeout 30m -v -run '^TestKill$$' ./cmd/doorward

chaos: tools
	DOORWARD_CHAOS=10 go test -count=1 -timeout 60m -v -run '^TestChaos' ./redisstore

man:
	go run ./cmd/doorward man man

tidy:
	go mod tidy
	@set -e; root=$$PWD; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	for m in $(NESTED); do \
		echo "tidy $$m"; \
		cp $$m/go.mod $$tmp/go.mod; \
		rm -f $$tmp/go.sum; if [ -f $$m/go.sum ]; then cp $$m/go.sum $$tmp/go.sum; fi; \
		go mod edit -replace github.com/doorward/doorward="$$root" -replace github.com/doorward/doorward/redisstore="$$root/redisstore" $$tmp/go.mod; \
		(cd $$m && GOWORK=off go mod tidy -modfile=$$tmp/go.mod); \
		go mod edit -dropreplace github.com/doorward/doorward -dropreplace github.com/doorward/doorward/redisstore $$tmp/go.mod; \
		cp $$tmp/go.mod $$m/go.mod; \
		if [ -f $$tmp/go.sum ]; then cp $$tmp/go.sum $$m/go.sum; fi; \
	done
