package pvesim

// sdnState is what is configured, what of it runs, and who alone may change it.
type sdnState struct {
	config, running map[string]sdnSections // by file
	lock            string                 // the token of the one who may; empty: everybody
}

// sdnSections are the things of one file, by ID, as they are read.
type sdnSections map[string]map[string]any

// configured are the sections of a file as they shall be.
func (s *sdnState) configured(file string) sdnSections {
	if s.config == nil {
		s.config = map[string]sdnSections{}
	}
	if s.config[file] == nil {
		s.config[file] = sdnSections{}
	}
	return s.config[file]
}
