package ops

import (
	"slices"

	"github.com/rota-dev/rota"
)

func waitOf(st *rota.Status, name string) (rota.Wait, bool) {
	i := slices.IndexFunc(st.Waits, func(w rota.Wait) bool { return w.Partition == name })
	if i < 0 {
		return rota.Wait{}, false
	}
	return st.Waits[i], true
}

const (
	runs     = "runs"
	starting = "starting"
	stopping = "stopping"

	ownerSilent = "owner silent"
)

// PartitionStates returns a function that says in a word or two how a partition is.
func PartitionStates(st *rota.Status) func(*rota.PartitionInfo) string {
	owners := map[string]*rota.MemberInfo{}
	for i := range st.Members {
		owners[st.Members[i].Session] = &st.Members[i]
	}
	waits := map[string]rota.Wait{}
	for _, w := range st.Waits {
		waits[w.Partition] = w
	}
	return func(p *rota.PartitionInfo) string {
		var owner rota.MemberInfo
		if m := owners[p.Owner]; m != nil {
			owner = *m
		}
		w, waits := waits[p.Name]
		return partitionState(st, p, &owner, w, waits)
	}
}

func partitionState(st *rota.Status, p *rota.PartitionInfo, owner *rota.MemberInfo, w rota.Wait, waits bool) string {
	switch {
	case p.Owner != "" && owner.State == rota.MemberLeft:
		return "nobody, owner left"
	case p.Owner != "" && owner.State == rota.MemberDead:
		return "nobody, owner dead"
	case p.Owner != "" && st.Phase == rota.Vacant:
		return "nobody, owner gone"
	case owner.Silent:
		return ownerSilent
	case p.State == rota.PartitionOwned && waits:
		return starting
	case p.State == rota.PartitionOwned:
		return runs
	case p.State == rota.PartitionRevoking:
		return stopping
	case p.Reason != "":
		return string(p.Reason)
	case waits && w.Member != "":
		return "for " + st.NameOf(w.Member)
	}
	return "free"
}

// Runs tells whether the word of PartitionStates means that a partition is consumed.
func Runs(state string) bool { return state == runs }
