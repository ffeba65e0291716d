package pvesim

// Fail puts a rule in force. Of several rules that match a request the one that
// came first counts. It panics when Path is not a regular expression.
func (s *Sim) Fail(r Rule) *Fault { return s.state.fail(r) }

// Requests returns what has been asked so far, in order of arrival.
func (s *Sim) Requests() []Request {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	out := make([]Request, len(s.state.requests))
	for i, r := range s.state.requests {
		out[i] = *r
	}
	return out
}

// ForgetRequests empties the list of requests.
func (s *Sim) ForgetRequests() {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	s.state.requests = nil
}
