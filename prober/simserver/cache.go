package simserver

import "encoding/binary"

// cache is a radix tree of the token sequences whose keys and values are in the pool. Sequences are cached in whole pages
// and evicted from their ends, the least recently used first. Namespaces (salts) share the pool, not the tree.
type cache struct {
	page     int
	capacity int // tokens in the pool
	used     int // tokens in the tree
	reserved int // tokens held by running requests outside the tree
	roots    map[string]*node
	clock    uint64 // counts uses
	lost     losses
}

// losses are tokens that were evicted, by whose they were.
type losses struct{ background, foreground int }

func (l losses) since(before losses) losses {
	return losses{l.background - before.background, l.foreground - before.foreground}
}

type node struct {
	key      []int32
	children map[string]*node // by the first page of their key
	parent   *node
	locks    int    // running requests that rest on it
	last     uint64 // the cache's clock at its last use

	background bool // whose it is: whoever brought it
}

func newCache(page, capacity int) *cache {
	return &cache{page: page, capacity: capacity, roots: map[string]*node{}}
}

// match finds the longest cached prefix of ids in whole pages and the node where it ends; nil where the namespace is new.
func (c *cache) match(salt string, ids []int32) (int, *node) {
	c.clock++
	at, matched := c.roots[salt], 0
	for at != nil && len(ids)-matched >= c.page {
		child := at.children[c.pageKey(ids[matched:])]
		if child == nil {
			break
		}
		n := c.common(child.key, ids[matched:])
		child.last = c.clock
		if n < len(child.key) {
			c.split(child, n)
			child = child.parent
		}
		matched += n
		at = child
	}
	return matched, at
}

// insert caches ids as far as there is room, and gives the node where what is cached ends.
func (c *cache) insert(salt string, ids []int32, background bool) *node {
	ids = ids[:len(ids)/c.page*c.page]
	matched, at := c.match(salt, ids)
	rest := len(ids) - matched
	if rest == 0 {
		return at
	}
	if at == nil {
		at = &node{children: map[string]*node{}}
		c.roots[salt] = at
	}
	at.locks++ // what is being extended is not evicted to make room for its extension
	c.evict(rest)
	at.locks--
	room := min(rest, c.free()) / c.page * c.page
	if room <= 0 {
		return at
	}
	child := &node{key: ids[matched : matched+room], children: map[string]*node{}, parent: at, last: c.clock, background: background}
	at.children[c.pageKey(child.key)] = child
	c.used += room
	return child
}

// lock keeps a node and all above it from eviction; unlock with the same node undoes it.
func (c *cache) lock(n *node, by int) {
	for ; n != nil; n = n.parent {
		n.locks += by
	}
}

func (c *cache) free() int { return c.capacity - c.used - c.reserved }

// evictable counts the tokens that no running request rests on.
func (c *cache) evictable() int {
	n := 0
	c.walk(func(x *node) {
		if x.locks == 0 {
			n += len(x.key)
		}
	})
	return n
}

// evict makes room for so many tokens where it can.
func (c *cache) evict(tokens int) {
	for c.free() < tokens {
		oldest := c.oldestLeaf()
		if oldest == nil {
			return
		}
		c.cut(oldest, tokens-c.free())
	}
}

func (c *cache) oldestLeaf() *node {
	var oldest *node
	c.walk(func(x *node) {
		if len(x.children) == 0 && x.locks == 0 && (oldest == nil || x.last < oldest.last) {
			oldest = x
		}
	})
	return oldest
}

// cut drops at least so many tokens from the end of a leaf, or all of it.
func (c *cache) cut(leaf *node, tokens int) {
	tokens = min((tokens+c.page-1)/c.page*c.page, len(leaf.key))
	c.used -= tokens
	if leaf.background {
		c.lost.background += tokens
	} else {
		c.lost.foreground += tokens
	}
	if tokens == len(leaf.key) {
		delete(leaf.parent.children, c.pageKey(leaf.key))
		c.prune()
		return
	}
	leaf.key = leaf.key[:len(leaf.key)-tokens]
}

// drop forgets everything that no running request rests on.
func (c *cache) drop() {
	for leaf := c.oldestLeaf(); leaf != nil; leaf = c.oldestLeaf() {
		c.cut(leaf, len(leaf.key))
	}
}

// prune forgets namespaces that hold nothing.
func (c *cache) prune() {
	for salt, r := range c.roots {
		if len(r.children) == 0 && r.locks == 0 {
			delete(c.roots, salt)
		}
	}
}

func (c *cache) walk(visit func(*node)) {
	var down func(*node)
	down = func(n *node) {
		for _, child := range n.children {
			visit(child)
			down(child)
		}
	}
	for _, r := range c.roots {
		down(r)
	}
}

// split puts a new node above n that holds the first at tokens of its key.
func (c *cache) split(n *node, at int) {
	upper := &node{
		key: n.key[:at:at], children: map[string]*node{}, parent: n.parent, locks: n.locks, last: n.last,
		background: n.background,
	}
	n.parent.children[c.pageKey(n.key)] = upper
	n.key, n.parent = n.key[at:], upper
	upper.children[c.pageKey(n.key)] = n
}

// common is the length in whole pages of the common prefix; at least one page is known to agree.
func (c *cache) common(a, b []int32) int {
	n := min(len(a), len(b))
	i := c.page
	for i < n && a[i] == b[i] {
		i++
	}
	return i / c.page * c.page
}

func (c *cache) pageKey(ids []int32) string {
	b := make([]byte, 0, 4*c.page)
	for _, id := range ids[:c.page] {
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	return string(b)
}
