// A rate limiter behind the lines that rl-lab speaks (docs/protocol.md), with the standard library alone.
//
// Put your own limiter into `decide`. Everything below it is the connection to Redis and the protocol.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A fixed window that the first admitted call opens; refused calls cost nothing. One script is one step.
const script = `
local cost = tonumber(ARGV[3])
local count = tonumber(redis.call('GET', KEYS[1]) or '0')
if count + cost > tonumber(ARGV[1]) then
  return {0, count, redis.call('PTTL', KEYS[1])}
end
redis.call('INCRBY', KEYS[1], cost)
if redis.call('PTTL', KEYS[1]) < 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {1, count + cost, 0}`

// decide says whether the call is admitted: what the lab is told of it. What went wrong stays in redis.err.
func decide(redis *Redis, key string, cost, limit, windowMs int64) Answer {
	reply := redis.list("EVAL", script, 1, key, limit, windowMs, cost)
	// Read-then-write: two callers read the same count before either writes. Put this in place of the line above,
	// and `rl-lab gate` says what comes of it.
	//   reply := [3]int64{0, redis.number("GET", key), redis.number("PTTL", key)}
	//   if reply[1]+cost <= limit {
	//       reply[0], reply[1] = 1, redis.number("INCRBY", key, cost)
	//       if redis.number("PTTL", key) < 0 {
	//           redis.number("PEXPIRE", key, windowMs)
	//       }
	//   }
	allowed, remaining, left := reply[0] == 1, limit-reply[1], reply[2]
	if remaining < 0 {
		remaining = 0
	}
	answer := Answer{Allowed: &allowed, Remaining: &remaining}
	if !allowed && left > 0 {
		answer.RetryAfterMs = &left
	}
	return answer
}

// Answer is what is told of a call. What it lacks is not known.
type Answer struct {
	ID           int64    `json:"id"`
	Allowed      *bool    `json:"allowed,omitempty"`
	Remaining    *int64   `json:"remaining,omitempty"`
	RetryAfterMs *int64   `json:"retry_after_ms,omitempty"`
	Error        *Failure `json:"error,omitempty"`
	Sent         bool     `json:"sent"`
	RoundTrips   int      `json:"round_trips"`
}

// Failure says why there is no decision.
type Failure struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// Refused is an error reply of the store.
type Refused string

func (r Refused) Error() string { return string(r) }

// Redis is one connection. Made when it is needed, and again after it broke.
type Redis struct {
	address string
	socket  net.Conn
	reader  *bufio.Reader
	sent    int
	err     error
}

func (r *Redis) connect() error {
	if r.socket != nil {
		return nil
	}
	socket, err := net.DialTimeout("tcp", r.address, 5*time.Second)
	if err == nil {
		r.socket, r.reader = socket, bufio.NewReader(socket)
	}
	return err
}

// do sends a command and answers with its reply: nil, an int64, a string or a list. After an error nothing is sent.
func (r *Redis) do(words ...any) (reply any) {
	if r.err != nil {
		return nil
	}
	if r.err = r.connect(); r.err != nil {
		return nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "*%d\r\n", len(words))
	for _, word := range words {
		plain := fmt.Sprint(word)
		fmt.Fprintf(&text, "$%d\r\n%s\r\n", len(plain), plain)
	}
	r.sent++
	if _, r.err = io.WriteString(r.socket, text.String()); r.err == nil {
		reply, r.err = r.reply()
	}
	if _, refused := r.err.(Refused); r.err != nil && !refused {
		r.socket.Close()
		r.socket = nil
	}
	return reply
}

func (r *Redis) reply() (any, error) {
	line, err := r.reader.ReadString('\n')
	if err != nil {
		return nil, err
	}
	rest := strings.TrimSuffix(line[1:], "\r\n")
	switch line[0] {
	case '+':
		return rest, nil
	case '-':
		return nil, Refused(rest)
	}
	number, err := strconv.ParseInt(rest, 10, 64)
	switch {
	case err != nil || line[0] == ':':
		return number, err
	case number < 0:
		return nil, nil
	case line[0] == '$':
		text := make([]byte, number+2)
		_, err = io.ReadFull(r.reader, text)
		return string(text[:number]), err
	}
	list := make([]any, number)
	for i := range list {
		if list[i], err = r.reply(); err != nil {
			break
		}
	}
	return list, err
}

// number is a reply that is one, or the text of one; 0 where there is none.
func (r *Redis) number(words ...any) int64 {
	number, _ := strconv.ParseInt(fmt.Sprint(r.do(words...)), 10, 64)
	return number
}

// list is a reply of three numbers.
func (r *Redis) list(words ...any) (numbers [3]int64) {
	items, _ := r.do(words...).([]any)
	for i := range numbers {
		if i < len(items) {
			numbers[i], _ = items[i].(int64)
		}
	}
	return numbers
}

type hello struct {
	Hello         int    `json:"hello"`
	Redis         string `json:"redis"`
	Limit         int64  `json:"limit"`
	WindowMs      int64  `json:"window_ms"`
	ClockOffsetMs int64  `json:"clock_offset_ms"`
	Connections   int    `json:"connections"`
	ColdPool      bool   `json:"cold_pool"`
}

type request struct {
	ID   *int64 `json:"id"`
	Op   string `json:"op"`
	Key  string `json:"key"`
	Cost *int64 `json:"cost"`
}

func answerTo(of request, redis *Redis, to hello) Answer {
	if of.Op != "acquire" {
		return Answer{ID: *of.ID, Error: &Failure{"unexpected", "the op " + of.Op + " is not known"}}
	}
	cost := int64(1)
	if of.Cost != nil {
		cost = *of.Cost
	}
	redis.sent, redis.err = 0, nil
	answer := decide(redis, of.Key, cost, to.Limit, to.WindowMs)
	if redis.err != nil {
		kind := "no-answer"
		_, refused := redis.err.(Refused)
		switch {
		case redis.sent == 0:
			kind = "not-connected"
		case refused && redis.sent == 1:
			// Of what came before a command that was refused, nobody says whether it was undone.
			kind = "refused"
		}
		answer = Answer{Error: &Failure{kind, redis.err.Error()}}
	}
	answer.ID, answer.Sent, answer.RoundTrips = *of.ID, redis.sent > 0, redis.sent
	return answer
}

// greeted reads the hello and connects, unless that is for later.
func greeted(line []byte) (to hello, connections []*Redis, err error) {
	if err = json.Unmarshal(line, &to); err != nil {
		return to, nil, err
	}
	if to.Hello != 1 {
		return to, nil, fmt.Errorf("no hello of protocol 1")
	}
	if to.ClockOffsetMs != 0 {
		return to, nil, fmt.Errorf("it goes by the clock of the store: no offset can be set")
	}
	at, err := url.Parse(to.Redis)
	if err != nil {
		return to, nil, err
	}
	for i := 0; i < to.Connections; i++ {
		redis := &Redis{address: at.Host}
		if !to.ColdPool {
			if err = redis.connect(); err != nil {
				return to, nil, err
			}
		}
		connections = append(connections, redis)
	}
	return to, connections, nil
}

func main() {
	var one sync.Mutex
	out := json.NewEncoder(os.Stdout)
	say := func(fields any) {
		one.Lock()
		defer one.Unlock()
		out.Encode(fields)
	}
	lines := bufio.NewReader(os.Stdin)
	line, _ := lines.ReadBytes('\n')
	to, connections, err := greeted(line)
	if err != nil {
		say(map[string]any{"ready": false, "error": err.Error()})
		os.Exit(2)
	}
	say(map[string]any{"ready": true, "name": "limiter.go", "version": "1", "capabilities": []string{}})

	requests := make(chan request, 1<<16)
	var open sync.WaitGroup
	for _, redis := range connections {
		open.Add(1)
		go func(redis *Redis) {
			defer open.Done()
			for of := range requests {
				say(answerTo(of, redis, to))
			}
		}(redis)
	}
	code := 0
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) == 0 && err != nil {
			break
		}
		var of request
		if wrong := json.Unmarshal(line, &of); wrong != nil || of.ID == nil {
			fmt.Fprintf(os.Stderr, "limiter: no request: %.200s\n", line)
			code = 2
			break
		}
		requests <- of
	}
	close(requests)
	open.Wait()
	os.Exit(code)
}
