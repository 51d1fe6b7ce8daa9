package simserver

import (
	"context"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
)

// PipeListener accepts connections that are pipes in memory, so that an http.Server can run in a synctest bubble: give it
// to http.Server.Serve and its Dial to the client.
type PipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once

	dialed atomic.Int64
}

// NewPipeListener makes a listener. Make it inside the bubble that uses it.
func NewPipeListener() *PipeListener {
	return &PipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

// Dial connects to the listener whatever the network and address are.
func (l *PipeListener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- pipeConn{Conn: server, remote: pipeAddr(l.dialed.Add(1))}:
		return client, nil
	case <-l.done:
		return nil, &net.OpError{Op: "dial", Net: "pipe", Addr: l.Addr(), Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: "pipe", Addr: l.Addr(), Err: ctx.Err()}
	}
}

// Accept waits for the next Dial.
func (l *PipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and refuses further dials.
func (l *PipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr is a made-up address.
func (l *PipeListener) Addr() net.Addr { return pipeAddr(0) }

// pipeConn has an address of its own, so that a handler can tell connections apart.
type pipeConn struct {
	net.Conn
	remote pipeAddr
}

func (c pipeConn) RemoteAddr() net.Addr { return c.remote }

// pipeAddr numbers the pipes of a listener; the listener itself is 0.
type pipeAddr int64

func (a pipeAddr) Network() string { return "pipe" }
func (a pipeAddr) String() string  { return "pipe:" + strconv.FormatInt(int64(a), 10) }
