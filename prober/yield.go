package prober

import (
	"context"
	"time"
)

// While a leg is on the wire, the server's load is read every so often. Others who are seen are looked at again soon; if they are
// still there, the leg is cancelled to let them past.
const (
	watchEvery = 2 * time.Second
	lookAgain  = 250 * time.Millisecond
)

// watch cancels the leg's context when others are served or wait beside it. The leg must be sent with the context that it returns,
// and stop called at its end, which gives the reading that made it yield, nil if none did.
func (e *execution) watch(ctx context.Context) (watched context.Context, stop func() *Load) {
	if e.before == nil {
		return ctx, func() *Load { return nil }
	}
	watched, cancel := context.WithCancel(ctx)
	var others *Load
	done := make(chan struct{})
	go func() {
		defer close(done)
		pause := watchEvery
		for sleep(watched, pause) == nil {
			load, err := e.load.ReadLoad(watched)
			switch {
			case err != nil || load.others() < 1:
				pause = watchEvery
			case pause == watchEvery:
				pause = lookAgain
			default:
				others = &load
				cancel()
			}
		}
	}()
	return watched, func() *Load {
		cancel()
		<-done
		return others
	}
}

// others is how many requests there are beside one of ours, which may run or wait itself.
func (l Load) others() int { return known(l.Running) + known(l.Queued) - 1 }
