package simserver

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
)

// stream writes server-sent events, one flush each, or as a proxy before the server would hand them on.
type stream struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	pending bytes.Buffer
	hold    int // bytes to gather before they go out; 0 none, negative all
	opened  bool
	header  func(http.Header)
}

func (s *instance) newStream(w http.ResponseWriter, header func(http.Header)) *stream {
	hold := s.config.Faults.BufferBytes
	if s.config.Faults.BufferProxy {
		hold = -1
	}
	return &stream{w: w, rc: http.NewResponseController(w), hold: hold, header: header}
}

// open sends the response head.
func (st *stream) open() {
	if st.opened {
		return
	}
	st.opened = true
	st.w.Header().Set("Content-Type", "text/event-stream")
	st.w.Header().Set("Cache-Control", "no-cache")
	if st.header != nil {
		st.header(st.w.Header())
	}
	if st.hold == 0 {
		st.w.WriteHeader(http.StatusOK)
		_ = st.rc.Flush() // a client that has left ends the request by its context
	}
}

// event sends one JSON event.
func (st *stream) event(v any) {
	data, err := json.Marshal(v)
	if err != nil {
		return // every value is one of our own
	}
	st.raw("data: " + string(data) + "\n\n")
}

func (st *stream) raw(text string) {
	st.open()
	st.pending.WriteString(text)
	if st.hold < 0 || st.pending.Len() < st.hold {
		return
	}
	st.flush()
}

func (st *stream) flush() {
	st.open()
	_, _ = st.w.Write(st.pending.Bytes()) // as above
	_ = st.rc.Flush()
	st.pending.Reset()
}

// reset breaks the connection without an end of the body.
func (st *stream) reset() {
	st.flush()
	resetConnection(st.w)
}

// breakOff sends a TCP reset where the connection is one of TCP.
func breakOff(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
