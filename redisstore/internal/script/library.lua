#!lua name=@name@
-- The policies of packages lockout, throttle and window over counts that live in Redis.
-- What each step means is said there, in Go; here are the same steps in the same order.
--
-- An entry is a string: the latest time it was judged at, when the order looks at it, the
-- state of its policy, and a record for each reservation in flight. It expires no sooner than
-- it is forgotten. The keys of a rule live in partitions. A partition has one cluster slot and
-- these keys, which begin alike and end in
--
--   16 bytes   entries that count towards its share of the capacity
--   4, 6       entries of the loopback addresses, which do not
--   +          the overflow entry
--   o          a sorted set of the entries that count, each at a time at or before which it
--              is not forgotten: who is looked for when there is no room
--   g, l       of a throttle: what all keys spent together, and a sorted set of all entries with
--              something pending by the end of their first lease
--
-- Times are microseconds since 1970. They and their sums are whole numbers below 2^53, which
-- doubles hold exactly.

-- What is not there yet while a library is loaded, and is looked up faster here than among
-- globals.
local call, pack, unpack, sub, find, byte, floor, min, max, band, format

local NEVER = 2^53
local SECOND = 1000000

-- Outcomes and reasons, as package doorward numbers them. 0 is no reason: allowed.
local FAILED, SUCCEEDED, MALFORMED, VOID = 0, 1, 2, 3
local ALLOWED, LOCKED, BUSY, SPENT, CEILING = 0, 1, 2, 3, 4

@clock@

-- Entries of one call are in tables of those before: making them would be most of what it costs.
local spare, used, SPARE = {}, 0, 64

local function begin()
  used = 0
  if not call then
    pack, unpack, sub, find, byte, format = struct.pack, struct.unpack, string.sub, string.find, string.byte, string.format
    floor, min, max, band, call = math.floor, math.min, math.max, bit.band, redis.call
  end
end

-- A policy is a table of steps. s is an entry, of which it knows its own fields, now and score;
-- r is the rule, all what a throttle counts of all keys. read fills in s from a value and returns
-- where its reservations begin; write is the way back.

local lockout = {}

local function forgotten(s)
  s.began, s.at, s.count, s.apart = 0, 0, 0, false
end

lockout.blank = forgotten

function lockout.read(s, v)
  local apart, next
  s.now, s.score, s.began, s.at, s.count, apart, next = unpack('<ddddI4B', v)
  s.apart = apart == 1
  return next
end

function lockout.write(s)
  return pack('<ddddI4Bc0', s.now, s.score, s.began, s.at, s.count, s.apart and 1 or 0, s.pending)
end

function lockout.forget(r, s)
  local count = s.count
  if count == 0 then return 0 end
  local till = s.at + (r.decay and count * r.step or r.step)
  return till < NEVER and till or NEVER
end

function lockout.age(r, s, now)
  local passed = now - s.at
  if passed < r.step then return end
  if not r.decay then return forgotten(s) end
  local steps = floor(passed / r.step)
  if steps >= s.count then return forgotten(s) end
  s.count, s.at = s.count - steps, s.at + steps * r.step
end

-- A lockout that runs ends by time alone: nobody settles it away.
local function locked(s, now) return now < s.at end

function lockout.judge(r, s, all, pending, now)
  if locked(s, now) then return LOCKED, s.at - now, 0 end
  local left = r.free - s.count - pending
  if left > 0 then return ALLOWED, 0, left - 1 end
  if pending == 0 then return ALLOWED, 0, 0 end
  return BUSY, 0, 0
end

function lockout.reserve() end -- in flight is not failed

local function failed(r, s, now)
  lockout.age(r, s, now)
  if s.count == 0 then
    forgotten(s)
    s.began, s.at = now, now
  end
  local count = s.count
  if count < r.most then count = count + 1 end
  s.count = count
  if count >= r.free then
    s.at = min(now + min(r.first * 2 ^ (count - r.free), r.max), NEVER)
  elseif not r.decay then
    s.at = now
  end
end

-- settle returns what a success cleared, how many and since when, and how long a lockout it
-- started.
function lockout.settle(r, s, all, outcome, apart, began, now)
  if outcome == VOID or outcome == SUCCEEDED and r.takeback then return 0, 0 end
  if outcome == SUCCEEDED then
    lockout.age(r, s, now)
    local n, first = s.count, s.apart and -1 or s.began
    forgotten(s)
    return n, first
  end
  failed(r, s, now)
  if apart then s.apart = true end
  return 0, 0, s.count >= r.free and s.at - now or 0
end

-- giveback returns how many failures are left if n of them, the first of which was counted
-- at first, are taken back.
function lockout.giveback(r, s, n, first, now)
  local since = s.began
  if r.decay or s.count >= r.free then since = max(since, s.at) end
  if n <= 0 or first < since or locked(s, now) then return s.count end
  return max(s.count - n, 0)
end

-- figures returns what counts, and until when it refuses.
function lockout.figures(r, s, now)
  return s.count, locked(s, now) and s.at or 0
end

local throttle = {}

local function current(r, t, now)
  if t.count == 0 or t.began + r.window <= now then t.began, t.count = 0, 0 end
end

local function charge(r, t, now)
  current(r, t, now)
  if t.count == 0 then t.began = now end
  t.count = t.count + 1
end

function throttle.blank(s) s.began, s.count = 0, 0 end

function throttle.read(s, v)
  local next
  s.now, s.score, s.began, s.count, next = unpack('<dddI4', v)
  return next
end

function throttle.write(s) return pack('<dddI4c0', s.now, s.score, s.began, s.count, s.pending) end

function throttle.forget(r, s)
  if s.count == 0 then return 0 end
  return min(s.began + r.window, NEVER)
end

function throttle.age(r, s, now) current(r, s, now) end

function throttle.judge(r, s, all, pending, now)
  current(r, all, now)
  local left, leftall = r.persource - s.count - pending, r.global - all.count - all.pending
  if left > 0 and leftall > 0 then return ALLOWED, 0, min(left, leftall) - 1 end
  local till = 0
  if left <= 0 then till = throttle.forget(r, s) end
  if leftall <= 0 then till = max(till, throttle.forget(r, all)) end
  if s.count >= r.persource then return SPENT, till - now, 0 end
  if all.count >= r.global then return CEILING, till - now, 0 end
  return BUSY, 0, 0
end

function throttle.reserve() end -- in flight is not refused

function throttle.settle(r, s, all, outcome, apart, began, now)
  if outcome == VOID then return 0, 0 end
  current(r, s, now)
  if outcome == SUCCEEDED then
    local n, first = s.count, s.began
    s.began, s.count = 0, 0
    return n, first
  end
  charge(r, s, now)
  s.count = min(s.count, 65535)
  if outcome == FAILED then charge(r, all, now) end
  return 0, 0
end

function throttle.figures(r, s, now)
  return s.count, s.count >= r.persource and throttle.forget(r, s) or 0
end

-- A window counts in slices of which the newest began at began: alone if it is fixed, with
-- the eight before it if it slides. older[1] is the one before the newest.
local window = {}

local NONE = {0, 0, 0, 0, 0, 0, 0, 0} -- only what is above 0 is ever changed

function window.blank(s, r)
  s.last, s.width, s.began, s.newest, s.older = r.last, r.width, 0, 0, NONE
end

function window.read(s, v)
  local next
  s.now, s.score, s.last, s.began, s.newest, next = unpack('<ddBdI4', v)
  s.width, s.older = 0, NONE
  if s.last == 0 then return next end
  local o = {}
  s.width, o[1], o[2], o[3], o[4], o[5], o[6], o[7], o[8], next = unpack('<dHHHHHHHH', v, next)
  s.older = o
  return next
end

function window.write(s)
  if s.last == 0 then return pack('<ddBdI4c0', s.now, s.score, 0, s.began, s.newest, s.pending) end
  local o = s.older
  return pack('<ddBdI4dHHHHHHHHc0', s.now, s.score, s.last, s.began, s.newest, s.width, o[1], o[2], o[3], o[4], o[5], o[6], o[7], o[8], s.pending)
end

local function total(s)
  local n, o = s.newest, s.older
  return n + o[1] + o[2] + o[3] + o[4] + o[5] + o[6] + o[7] + o[8]
end

-- ends returns when the slice that lies back slices before the newest counts no more.
local function ends(r, s, back) return min(s.began + (r.last + 1 - back) * r.width, NEVER) end

function window.forget(r, s)
  if s.newest > 0 then return ends(r, s, 0) end
  for i = 1, r.last do
    if s.older[i] > 0 then return ends(r, s, i) end
  end
  return 0
end

local function slide(r, s, now)
  if window.forget(r, s) <= now then
    s.began, s.newest, s.older = now, 0, NONE
  elseif now - s.began >= r.width then
    local passed = floor((now - s.began) / r.width)
    local older = {0, 0, 0, 0, 0, 0, 0, 0}
    older[passed] = s.newest
    for i = passed + 1, 8 do older[i] = s.older[i - passed] end
    s.began, s.newest, s.older = s.began + passed * r.width, 0, older
  end
end

-- age also takes over what was written under another width: all that counts still, counts as
-- if it had been admitted now.
function window.age(r, s, now)
  if s.last ~= r.last or s.last > 0 and s.width ~= r.width then
    local old = {last = s.last, width = s.last > 0 and s.width or r.window}
    slide(old, s, now)
    local n = total(s)
    if r.last > 0 then n = min(n, 65535) end
    s.last, s.width, s.began, s.newest, s.older = r.last, r.width, now, n, NONE
  end
  slide(r, s, now)
end

function window.judge(r, s, all, pending, now)
  local left = r.limit - total(s)
  if left >= 1 then return ALLOWED, 0, left - 1 end
  local back = r.last
  while back > 0 do -- the oldest are forgotten first
    left = left + s.older[back]
    if left >= 1 then break end
    back = back - 1
  end
  return SPENT, ends(r, s, back) - now, 0
end

function window.reserve(s) s.newest = s.newest + 1 end

function window.settle(r, s, all, outcome, apart, began, now)
  if outcome ~= VOID then return 0, 0 end
  window.age(r, s, now)
  local back = 0
  if began < s.began then back = floor((s.began - began - 1) / r.width) + 1 end
  if back == 0 then
    if s.newest > 0 then s.newest = s.newest - 1 end
  elseif back <= r.last and s.older[back] > 0 then
    s.older[back] = s.older[back] - 1
  end
  return 0, 0
end

function window.figures(r, s, now)
  local n = total(s)
  if n < r.limit then return n, 0 end
  local _, wait = window.judge(r, s, nil, 0, now)
  return n, now + wait
end

-- parse reads what Rule.Append wrote.
local function parse(text)
  local kind, flags, capacity, inflight, lease, memory, a, b, c, d, e = unpack('<BBI4I4ddddddd', text)
  if kind == 1 then
    return {
      policy = lockout, capacity = capacity, inflight = inflight, lease = lease, memory = memory,
      free = a, first = b, max = c, step = d, most = e, decay = flags % 2 == 1, takeback = flags >= 2,
    }
  elseif kind == 2 then
    return {
      policy = throttle, capacity = capacity, inflight = inflight, lease = lease, memory = memory,
      persource = a, global = b, window = c,
    }
  end
  return {
    policy = window, capacity = capacity, inflight = inflight, lease = lease, memory = memory,
    limit = a, width = b, last = c, window = d,
  }
end

-- What the flags of an argument mean. In reserve the first two are those of an outcome in settle,
-- and given is giveback. shared: the key does not count towards the capacity.
local meanings = {}

local function meaning(arg)
  local flags = byte(arg)
  local m = meanings[flags]
  if not m then
    local function has(bit) return band(flags, bit) ~= 0 end
    m = {
      outcome = flags % 4, mayrefuse = has(1), known = has(2), given = has(4), giveback = has(4),
      pair = has(8), apart = has(16), over = has(32), shared = has(128),
    }
    meanings[flags] = m
  end
  return m
end

-- rules are those parsed last: only a cache, nothing that a call answers depends on it.
local rules, known = {}, 0

-- rule reads the rule of an argument, which follows flags and the name of a reservation.
local function rule(arg)
  local text = sub(arg, 9)
  local r = rules[text]
  if r then return r end
  if known == 256 then rules, known = {}, 0 end
  r, known = parse(text), known + 1
  rules[text] = r
  return r
end

-- A record is a reservation: the end of its lease, its tag, and seven bytes that name it.
local RECORD = 16

local function lease(pending) return (unpack('<d', pending)) end

-- locate returns where the record of a name begins, nil if there is none.
local function locate(pending, id)
  if #pending == RECORD then return sub(pending, 10) == id and 1 or nil end
  local at = 1
  while true do
    at = find(pending, id, at, true)
    if not at or at % RECORD == 10 then return at and at - 9 end
    at = at + 1
  end
end

-- expiry returns the argument that says when a key goes, in milliseconds: never before the time at.
local function expiry(at)
  if at > NEVER then at = NEVER end
  return format('%d', at / 1000 + 1)
end

-- expires sets when a key goes.
local function expires(key, at) call('PEXPIREAT', key, expiry(at)) end

-- entry makes an entry of the value of a key, or a blank one. own says that it counts towards the
-- capacity: then the key ends in a name, else in a byte.
local function entry(key, r, own, all, now, v)
  used = used + 1
  local e = spare[used]
  if not e then
    e = {}
    if used <= SPARE then spare[used] = e end
  end
  e.key, e.rule, e.own, e.all, e.changed = key, r, own, all, false
  e.pending, e.over, e.exists = '', false, false
  if v then
    e.exists = true
    local next = r.policy.read(e, v)
    if next <= #v then e.pending = sub(v, next) end
    if e.now < now then e.now = now end
  else
    e.now, e.score = now, 0
    r.policy.blank(e, r)
  end
  return e
end

-- base returns what the keys of a partition begin with, of one that ends in a name or a byte.
local function base(key, own) return sub(key, 1, own and -17 or -2) end

-- member returns how the sorted sets call an entry.
local function member(e) return sub(e.key, e.own and -16 or -1) end

-- conclude tells the policy that the reservation whose record begins at at ends as outcome, at the
-- time now.
local function conclude(e, at, outcome, apart, now)
  local till, tag = unpack('<dB', e.pending, at)
  local r, all = e.rule, e.all
  e.changed = true
  if all then all.pending = max(all.pending - 1, 0) end
  return r.policy.settle(r, e, all, outcome, apart or tag == 1, till - r.lease, now)
end

-- expire ends the leases of e that are over, or the first of them, each as a failure at its end.
local function expire(e, once)
  local at, pending = 1, e.pending
  while at < #pending do
    local till = unpack('<d', pending, at)
    if till > e.now then break end
    conclude(e, at, FAILED, false, till)
    at = at + RECORD
    if once then break end
  end
  if at > 1 then e.pending = sub(pending, at) end
end

-- drop removes e, which means nothing any more.
local function drop(e)
  if not e.exists then return end
  e.exists = false
  call('DEL', e.key)
  if e.own then call('ZREM', base(e.key, true) .. 'o', member(e)) end
end

-- store writes e.
local function store(e)
  local r, all, pending, now, score = e.rule, e.all, e.pending, e.now, e.score
  local policy = r.policy
  local forget = policy.forget(r, e)
  local keep = forget
  e.changed = false
  if all then -- its leases stay in order with those of all others
    local leases = base(e.key, e.own) .. 'l'
    if pending == '' then
      call('ZREM', leases, member(e))
    elseif call('ZADD', leases, format('%d', lease(pending)), member(e)) == 1 then
      expires(leases, now + 2 * (r.lease + r.memory))
    end
    local known = max(throttle.forget(r, all), all.pending > 0 and now + r.lease + r.memory or 0)
    call('SET', all.key, pack('<dI4I4d', all.began, all.count, all.pending, all.first), 'PXAT', expiry(known))
  end
  if pending == '' then
    if forget <= now then return drop(e) end
  else
    local last = unpack('<d', pending, #pending - RECORD + 1) + r.memory
    if last > keep then keep = last end
  end
  -- The order need not be exact, only never late: most often nothing moves.
  if e.own and (forget < score or score <= now) then
    if pending ~= '' then forget = max(forget, lease(pending)) end
    if forget < score or score <= now then
      local order = base(e.key, true) .. 'o'
      e.score = forget
      call('ZADD', order, format('%d', forget), member(e))
      expires(order, now + 2 * (r.lease + r.memory))
    end
  end
  e.exists = true
  call('SET', e.key, policy.write(e), 'PXAT', expiry(keep))
end

-- visit looks at an entry that the order names at what time did to it, and reports whether it is
-- gone.
local function visit(e)
  expire(e)
  if e.pending == '' and e.rule.policy.forget(e.rule, e) <= e.now then
    drop(e)
    return true
  end
  e.score = 0 -- to be written anew
  store(e)
  return false
end

-- sweep looks at up to n entries that may be forgotten, the earliest first, and returns how many
-- went and how many it looked at.
local function sweep(base, r, all, now, n)
  local order, gone = base .. 'o', 0
  local due = call('ZRANGEBYSCORE', order, '-inf', format('%d', now), 'LIMIT', 0, n)
  for i = 1, #due do
    local key = base .. due[i]
    local v = call('GET', key)
    if not v then
      call('ZREM', order, due[i])
      gone = gone + 1
    elseif visit(entry(key, r, true, all, now, v)) then
      gone = gone + 1
    end
  end
  return gone, #due
end

-- OVERDUE is how many leases of others end in one call, at most. What is left is for the next.
local OVERDUE = 1000

-- overdue ends the leases of a throttle that are over, in their order: each counts for all.
local function overdue(base, r, all, now)
  for _ = 1, OVERDUE do
    if all.first > now then return end
    local head = call('ZRANGE', base .. 'l', 0, 0, 'WITHSCORES')
    all.first = tonumber(head[2] or NEVER)
    if all.first > now then return end
    local key = base .. head[1]
    local v = call('GET', key)
    if v then
      local e = entry(key, r, #head[1] > 1, all, now, v)
      expire(e, true)
      if e.pending == '' then r.policy.age(r, e, e.now) end
      store(e)
    else
      call('ZREM', base .. 'l', head[1])
    end
  end
end

-- sum returns what a throttle knows of all keys now: its tally, how many reservations are
-- pending, and a time at or before which the first of their leases does not end.
local function sum(base, r, now)
  local all = {key = base .. 'g', began = 0, count = 0, pending = 0, first = NEVER}
  local v = call('GET', all.key)
  if v then
    all.began, all.count, all.pending, all.first = unpack('<dI4I4d', v)
    overdue(base, r, all, now)
  end
  return all
end

-- LOOK is how many entries are looked at for one that is forgotten, at most.
local LOOK = 128

-- room reports whether a partition has room for one more entry. Two forgotten ones go with each
-- that comes.
local function room(base, r, all, now)
  local n = call('ZCARD', base .. 'o')
  if n == 0 then return true end
  local gone, looked = sweep(base, r, all, now, 2)
  n = n - gone
  while n >= r.capacity and looked > 0 and looked < LOOK do
    local went, more = sweep(base, r, all, now, 8)
    n, looked = n - went, more > 0 and looked + more or 0
  end
  return n < r.capacity
end

-- load makes an entry as it is now of the value of a key, or a blank one.
local function load(key, r, own, all, now, v)
  local e = entry(key, r, own, all, now, v)
  if e.pending ~= '' then expire(e) end
  r.policy.age(r, e, e.now)
  return e
end

-- seat returns the entry that a key is charged to: its own, or overflow.
local function seat(key, r, own, now)
  local all = r.policy == throttle and sum(base(key, own), r, now)
  local v = call('GET', key)
  if v or not own then return load(key, r, own, all, now, v) end
  local partition = base(key, true)
  if room(partition, r, all, now) then return load(key, r, true, all, now) end
  key = partition .. '+'
  local e = load(key, r, false, all, now, call('GET', key))
  e.over = true
  return e
end

-- existing returns the entry of a key as it is now, false if there is none.
local function existing(key, r, own, now)
  local all = r.policy == throttle and sum(base(key, own), r, now)
  local v = call('GET', key)
  return v and load(key, r, own, all, now, v)
end

-- MOST is how many reservations one entry may have: all of them are read and written with it.
local MOST = 1024

-- judge answers an attempt on e.
local function judge(e)
  local r, all, pending = e.rule, e.all, #e.pending / RECORD
  local verdict, wait, left = r.policy.judge(r, e, all, pending, e.now)
  if verdict == ALLOWED and (pending >= MOST or (all and all.pending or pending) >= r.inflight) then
    verdict, left = BUSY, 0
  end
  if verdict == BUSY then
    local till
    if pending > 0 then
      till = lease(e.pending)
    else -- busy with others' keys
      local head = call('ZRANGE', base(e.key, e.own) .. 'l', 0, 0, 'WITHSCORES')
      till = tonumber(head[2] or NEVER)
    end
    wait = min(SECOND, till - e.now)
  end
  e.verdict, e.wait, e.left = verdict, wait, left
  return verdict
end

local charges = {} -- of this call

-- reserve judges charges, and charges all that allow if none refuses. A charge is the key of an
-- entry, and an argument: flags, the name of the reservation, and the rule.
local function reserve(keys, args)
  begin()
  local now = clock(args)
  local n, refused = #args, false
  for i = 1, n do
    local arg = args[i]
    local m = meaning(arg)
    local e = seat(keys[i], rule(arg), not m.shared, now)
    e.meaning = m
    if judge(e) ~= ALLOWED and m.mayrefuse and not (e.over and m.known) then refused = true end
    charges[i] = e
  end
  local apart, reply = false, ''
  for i = 1, n do
    local e = charges[i]
    local m, allowed = e.meaning, e.verdict == ALLOWED
    if not refused and allowed then
      local r, all, pending = e.rule, e.all, e.pending
      local till = e.now + r.lease
      if pending ~= '' then till = max(till, (unpack('<d', pending, #pending - RECORD + 1))) end
      if all then
        all.first, all.pending = min(all.first, till), all.pending + 1
      end
      r.policy.reserve(e)
      e.pending = pack('<c0dBc0', pending, till, m.pair and (apart or m.apart) and 1 or 0, sub(args[i], 2, 8))
      store(e)
    elseif e.changed then
      store(e)
    end
    apart = apart or m.given and (not allowed or e.over)
    local answer = pack('<BBdI4', e.verdict, e.over and 1 or 0, e.wait, e.left)
    reply = n == 1 and answer or reply .. answer
  end
  return reply
end

-- giveback takes back on e what pairs cleared, by the one that gives back most.
local function giveback(e, cleared)
  local count = e.count
  for i = 1, #cleared, 2 do
    count = min(count, lockout.giveback(e.rule, e, cleared[i], cleared[i + 1], e.now))
  end
  if count == e.count then return end
  if count == 0 then forgotten(e) else e.count = count end
  e.changed = true
end

-- settle ends reservations. The first argument lists what pairs cleared before, the others are
-- as in reserve, with the outcome and other flags.
local function settle(keys, args)
  begin()
  local now = clock(args)
  local cleared, reply, from = {}, '', 1
  while from <= #args[1] do
    cleared[#cleared + 1], cleared[#cleared + 2], from = unpack('<dd', args[1], from)
  end
  for i = 1, #args - 1 do
    local arg, key = args[i + 1], keys[i]
    local m, r = meaning(arg), rule(arg)
    local outcome, over, own = m.outcome, m.over, not m.shared
    local n, first, lockout = 0, 0, 0
    local e
    if over then
      e = existing(base(key, own) .. '+', r, false, now)
    else
      e = existing(key, r, own, now)
    end
    local at = e and locate(e.pending, sub(arg, 2, 8))
    if at then
      if over and outcome == SUCCEEDED then outcome = VOID end -- nobody clears what all share
      n, first, lockout = conclude(e, at, outcome, m.apart, e.now)
      if over then n, lockout = 0, 0 end
      e.pending = sub(e.pending, 1, at - 1) .. sub(e.pending, at + RECORD)
    end
    if m.giveback then
      if over then
        if e and e.changed then store(e) end
        e = existing(key, r, own, now)
      end
      if e then giveback(e, cleared) end
    end
    if e and e.changed then store(e) end
    if n > 0 and m.pair then cleared[#cleared + 1], cleared[#cleared + 2] = n, first end
    reply = reply .. pack('<I4dd', n, first, lockout or 0)
  end
  return reply
end

-- mark marks a reservation apart, and reports whether there was one.
local function mark(keys, args)
  begin()
  local now = clock(args)
  local key, m = keys[1], meaning(args[1])
  local own = not m.shared
  if m.over then key, own = base(key, own) .. '+', false end
  local e = existing(key, rule(args[1]), own, now)
  if not e then return 0 end
  local at = locate(e.pending, sub(args[1], 2, 8))
  if at then e.pending = sub(e.pending, 1, at + 7) .. '\1' .. sub(e.pending, at + 9) end
  store(e)
  return at and 1 or 0
end

-- describe writes what is known of e for people.
local function describe(e)
  local r = e.rule
  local count, till = r.policy.figures(r, e, e.now)
  return pack('<dI4I4dd', e.now, count, #e.pending / RECORD, till, r.policy.forget(r, e))
end

local function live(e) return e.pending ~= '' or e.rule.policy.forget(e.rule, e) > e.now end

-- look returns what an attempt would be answered, and the entry of its key if it has one. It
-- writes only what time did.
local function look(keys, args)
  begin()
  local now = clock(args)
  local r, own = rule(args[1]), not meaning(args[1]).shared
  local e = seat(keys[1], r, own, now)
  judge(e)
  local answer = pack('<BBdI4B', e.verdict, e.over and 1 or 0, e.wait, e.left, not e.over and live(e) and 1 or 0)
  if e.changed then store(e) end
  return answer .. describe(e.over and entry(keys[1], r, own, false, now) or e)
end

-- unlock forgets an entry with its reservations, and reports whether there was one.
local function unlock(keys, args)
  begin()
  local now = clock(args)
  local e = existing(keys[1], rule(args[1]), not meaning(args[1]).shared, now)
  if not e then return 0 end
  if e.all then e.all.pending = max(e.all.pending - #e.pending / RECORD, 0) end
  e.rule.policy.blank(e, e.rule)
  e.pending = ''
  store(e)
  return 1
end

-- clear forgets all entries of a partition, n at a time, and reports whether more are left.
local function clear(keys, args)
  begin()
  local base = sub(keys[1], 1, -2)
  local some = call('ZRANGE', keys[1], 0, tonumber(args[1]) - 1)
  for i = 1, #some do
    call('UNLINK', base .. some[i])
    call('ZREM', keys[1], some[i])
  end
  call('UNLINK', base .. '+', base .. '4', base .. '6', base .. 'g', base .. 'l')
  return call('ZCARD', keys[1]) > 0 and 1 or 0
end

-- BESIDE are the entries that are not in the order.
local BESIDE = {'+', '4', '6'}

-- page returns the live entries among the next n places from a place on: of each the end of its
-- key and figures. The first places are those of BESIDE.
local function page(keys, args)
  begin()
  local now = clock(args)
  local order, r, from, n = keys[1], rule(args[1]), tonumber(args[2]), tonumber(args[3])
  local base = sub(order, 1, -2)
  local some = {}
  for i = from + 1, min(from + n, #BESIDE) do some[#some + 1] = BESIDE[i] end
  if #some < n then
    local first = from + #some - #BESIDE
    local rest = call('ZRANGE', order, first, first + n - #some - 1)
    for i = 1, #rest do some[#some + 1] = rest[i] end
  end
  local reply = {#some == n and from + n or 0}
  for i = 1, #some do
    local v = call('GET', base .. some[i])
    if v then
      local e = load(base .. some[i], r, #some[i] > 1, {pending = 0, count = 0, began = 0}, now, v)
      if live(e) then reply[#reply + 1] = some[i] .. describe(e) end
    end
  end
  return reply
end

redis.register_function('@name@_reserve', reserve)
redis.register_function('@name@_settle', settle)
redis.register_function('@name@_mark', mark)
redis.register_function('@name@_look', look)
redis.register_function('@name@_unlock', unlock)
redis.register_function('@name@_clear', clear)
redis.register_function('@name@_page', page)
