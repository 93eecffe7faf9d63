package rotaredis

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/rota-dev/rota"
)

// facts are what a server says of itself.
type facts struct {
	runID    string // random, made at each start
	mode     string // standalone, cluster or sentinel
	major    int    // of the version
	role     string // master or slave
	master   string // of a replica: the address of its master
	promoted string // the promotion that made it a master, "" of one that began as a master
	replicas int
	aof      bool
	fsync    string // appendfsync; "" if the server does not tell
	lax      bool   // no-appendfsync-on-rewrite: it does not sync during a rewrite
	memory   uint64 // maxmemory
	policy   string // maxmemory-policy
}

// readInfo reads the answer to INFO.
func readInfo(text string) (facts, error) {
	fields := infoFields(text)
	f := facts{runID: fields["run_id"], mode: fields["redis_mode"], role: fields["role"], policy: fields["maxmemory_policy"], aof: fields["aof_enabled"] == "1"}
	major, _, _ := strings.Cut(fields["redis_version"], ".")
	f.major, _ = strconv.Atoi(major)
	f.replicas, _ = strconv.Atoi(fields["connected_slaves"])
	f.memory, _ = strconv.ParseUint(fields["maxmemory"], 10, 64)
	if f.role == "slave" {
		f.master = net.JoinHostPort(fields["master_host"], fields["master_port"])
	}
	f.promoted = promotion(fields)
	if f.runID == "" || f.mode == "" || f.mode != "sentinel" && f.role == "" {
		return f, fmt.Errorf("its answer to INFO has no run_id, redis_mode or role: is it Redis?")
	}
	return f, nil
}

// promotion names the promotion that made a server a master, "" of one that began as one.
func promotion(fields map[string]string) string {
	if at := fields["second_repl_offset"]; at != "" && at != "-1" {
		return fields["master_replid2"] + ":" + at
	}
	return ""
}

// infoFields returns the fields of an answer to INFO.
func infoFields(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok && !strings.HasPrefix(line, "#") {
			fields[name] = value
		}
	}
	return fields
}

// identity names one life of a master. The run id alone would not do: a server that was
// a master, then a replica, and a master again has the same one, and another's data.
func (f facts) identity() string {
	if f.promoted == "" {
		return f.runID
	}
	return f.runID + " " + f.promoted
}

// durable tells whether an acknowledged write is on the server's disk. vouched is the
// URL's word for a server that does not tell.
func (f facts) durable(vouched bool) bool {
	return f.aof && !f.lax && (f.fsync == "always" || f.fsync == "" && vouched)
}

// class is the class of a single server. One that was promoted may lack writes that the
// former master had acknowledged, so members must notice that it is another one.
func (f facts) class(vouched bool) rota.Class {
	if f.replicas == 0 && f.promoted == "" && f.durable(vouched) {
		return rota.ClassB
	}
	return rota.ClassC
}

// evicts tells whether the server may remove records when its memory is full. The
// policies volatile-… remove only keys that expire, and ours do not.
func (f facts) evicts() bool { return f.memory > 0 && strings.HasPrefix(f.policy, "allkeys-") }

func (f facts) evictionText() string {
	return fmt.Sprintf("the server removes records when its memory is full (maxmemory %d, maxmemory-policy %s): "+
		"set maxmemory-policy to noeviction, or give rota a server of its own", f.memory, f.policy)
}

// suits refuses a server that cannot be what the URL says it is, or would lose records.
func (s *settings) suits(f facts) error {
	switch {
	case f.mode == "sentinel":
		return fmt.Errorf("it is a Sentinel: write redis+sentinel://HOST,HOST/NAME")
	case f.mode == "cluster" && s.kind != cluster:
		return fmt.Errorf("it is a node of a Cluster: write redis+cluster://HOST,HOST")
	case f.mode != "cluster" && s.kind == cluster:
		return fmt.Errorf("it is no node of a Cluster: write redis://HOST")
	case s.kind == cluster && f.major < 7:
		return fmt.Errorf("it is Redis %d: in a Cluster rota needs 7 or later, which has channels for each slot", f.major)
	case f.evicts():
		return fmt.Errorf("%s", f.evictionText())
	case s.synced && !f.aof:
		return fmt.Errorf("sync=always vouches for a server that writes no append-only file: set appendonly yes and appendfsync always there, or leave sync out")
	case s.synced && f.fsync != "" && !f.durable(true):
		return fmt.Errorf("sync=always vouches for a server that has appendfsync %s, no-appendfsync-on-rewrite %v: set always and no there, or leave sync out", f.fsync, f.lax)
	}
	return nil
}
