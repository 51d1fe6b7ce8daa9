package simserver

import "net/http"

type Script struct {
	Wire   string
	Bodies map[string]string
}

type Player struct{}

func NewPlayer(Script) (*Player, error) { return &Player{}, nil }

func (p *Player) play(http.ResponseWriter, *http.Request) bool { return false }
