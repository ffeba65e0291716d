package pvesim

// SetRole makes a role, or replaces what it grants.
func (s *Sim) SetRole(id string, privs ...string) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	s.state.access.setRole(id, privs)
}

// Revoke removes privileges from every role of the model; what a test of a
// refused permission begins with.
func (s *Sim) Revoke(privs ...string) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	for id, role := range s.state.access.roles {
		if id == "Administrator" {
			continue
		}
		for _, p := range privs {
			delete(role, p)
		}
	}
}
