package world

// SDN is what is configured, what of it runs, and who alone may change it.
type SDN struct {
	Config, Running map[string]SDNSections // by file
	Lock            string                 // the token of the one who may; empty: everybody
}

// SDNSections are the things of one file, by ID, as they are read.
type SDNSections map[string]map[string]any

// Configured are the sections of a file as they shall be.
func (s *SDN) Configured(file string) SDNSections {
	if s.Config == nil {
		s.Config = map[string]SDNSections{}
	}
	if s.Config[file] == nil {
		s.Config[file] = SDNSections{}
	}
	return s.Config[file]
}
