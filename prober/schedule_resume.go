package prober

import "time"

// Resume makes the schedule of targets that are added from now on go on where an earlier process left it. age tells how long
// ago a rung's last run began, where that is known.
func (s *Scheduler) Resume(age func(Target, Rung) (time.Duration, bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.age = age
}

// resumed puts rungs that were measured not long ago off until an interval has passed; the others come as after any start. The
// caller holds mu.
func (s *Scheduler) resumed(slots []*slot, now time.Time) []*slot {
	if s.age == nil {
		return slots
	}
	for _, sl := range slots {
		age, known := s.age(sl.target, sl.rung)
		if !known || age > sl.interval {
			continue // the time away is no forecast of the time from run to run
		}
		sl.last = now.Add(-age)
		if due := now.Add(sl.interval - age); due.After(sl.due) {
			sl.due, sl.since = due, due
		}
	}
	return slots
}
