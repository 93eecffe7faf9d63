package main

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/rota-dev/rota"
)

// A redisSink is a sink in Redis. A script runs alone, so it compares and writes in one step. Both
// keys have the partition in braces: a cluster keeps them together.
type redisSink struct{ c *redis.Client }

// save has the owner and the list of a partition as its keys, and token, session and value. Tokens
// are texts of one length, since numbers of Lua are not exact beyond 2^53.
var save = redis.NewScript(`
	local token, session = redis.call('HGET', KEYS[1], 'token') or '', redis.call('HGET', KEYS[1], 'session') or ''
	if ARGV[1] < token or ARGV[1] == token and ARGV[2] ~= session then return 0 end
	redis.call('HSET', KEYS[1], 'token', ARGV[1], 'session', ARGV[2])
	redis.call('RPUSH', KEYS[2], ARGV[3])
	return 1`)

func openRedis(url string) (Sink, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	o.MaxRetries = -1 // a script whose answer was lost would write twice
	return &redisSink{redis.NewClient(o)}, nil
}

func (s *redisSink) Save(ctx context.Context, msg rota.Message) error {
	o := ownerOf(msg)
	done, err := save.Run(ctx, s.c, []string{"owner:{" + msg.Partition + "}", saved(msg.Partition)}, o.digits(), o.Session, msg.Value).Int()
	if err == nil && done == 0 {
		err = refused(msg)
	}
	return err
}

// saved is the list of a partition.
func saved(partition string) string { return "saved:{" + partition + "}" }

func (s *redisSink) Close() error { return s.c.Close() }
