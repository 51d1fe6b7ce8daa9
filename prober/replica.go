package prober

import (
	"strconv"

	"longctx_exporter/prober/inference"
)

// checkReplicas says whether all legs were answered by the same replica, as far as they tell, and by the one that is pinned, or
// that has the prompt of a warm run.
func (e *execution) checkReplicas() error {
	seen := e.replica
	for _, l := range e.run.Legs {
		switch r := l.Response.Replica; {
		case r == "" || r == seen:
		case e.facts.Dialect == inference.SGLang && isRank(r) && isRank(e.target.Replica) && r != e.target.Replica:
			return reject(ReplicaMismatch, "a leg was answered by the replica %s where `replica` pins %s", r, e.target.Replica)
		case seen == "":
			seen = r
		default:
			return reject(ReplicaMismatch, "legs were answered by the replicas %s and %s: set `replica` to pin one", seen, r)
		}
	}
	return nil
}

func isRank(replica string) bool {
	_, err := strconv.ParseUint(replica, 10, 16)
	return err == nil
}

// scattered says whether several replicas may have answered the legs of the run and nothing tells which. The slots of llama.cpp
// are none: they share one model.
func (e *execution) scattered() bool {
	if e.facts.Replicas < 2 || e.target.Replica != "" || e.facts.Dialect == inference.LlamaCpp {
		return false
	}
	for _, l := range e.run.Legs {
		if l.Response.Replica != "" {
			return false
		}
	}
	return true
}

// checkWhole says whether the difference of two legs may be believed without the stream of one: not where another replica may
// have answered the other. Counters that do not show the run's requests are a sign of that.
func (e *execution) checkWhole() error {
	switch {
	case e.scattered():
		return reject(ReplicaMismatch, "nothing shows that both legs of a pair were answered by the same of %d replicas: set `replica` to pin one", e.facts.Replicas)
	case e.strayed && e.target.Replica == "" && e.run.Sample.Isolation == NotKnown:
		return reject(ReplicaMismatch, "the server's counters do not show the run's requests, so that another replica may have answered some: probe replicas by their own URLs")
	}
	return nil
}
