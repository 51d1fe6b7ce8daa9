package simserver

// pool is how the tokens of the KV cache are spread at one moment. The three sum to its capacity.
type pool struct {
	held      int // by requests that run
	evictable int // prefixes that no running request rests on
	available int
}

// pool counts what is in use, not what is set aside for the longest answers. The engine's lock is held.
func (e *engine) pool() pool {
	p := pool{evictable: e.cache.evictable()}
	p.held = e.cache.used - p.evictable
	for _, j := range e.running {
		p.held += max(0, e.computedTokens(j)-j.node.depth())
	}
	p.available = max(0, e.cache.capacity-p.held-p.evictable)
	return p
}

// computedTokens is how many tokens of a job have keys and values.
func (e *engine) computedTokens(j *job) int {
	if !j.prefilled {
		return j.computed
	}
	return len(j.prompt) + max(0, len(j.output)-1)
}

// depth is the number of tokens from the root to the end of a node.
func (n *node) depth() int {
	tokens := 0
	for ; n != nil; n = n.parent {
		tokens += len(n.key)
	}
	return tokens
}
