package spec

// Alerts says who is told when something is wrong. With none of the three nobody is.
type Alerts struct {
	Ntfy    SecretRef `yaml:"ntfy" absent:"off" doc:"Reference to the URL of a topic of ntfy (2.14 or newer), e.g. of ‘https://ntfy.sh/a-long-random-name’. Anyone who knows the name can read it."`
	Webhook SecretRef `yaml:"webhook" absent:"off" doc:"Reference to a URL that takes Alertmanager's JSON."`
	Mail    *Mail     `yaml:"mail" absent:"off" doc:"A server that takes mail, with TLS."`
}

// Mail is a server that sends mail, and to whom.
type Mail struct {
	Server   string    `yaml:"server" required:"true" doc:"‘name:port’ of the server, e.g. ‘smtp.home.example:587’."`
	To       []string  `yaml:"to" required:"true" doc:"Addresses that get it."`
	From     string    `yaml:"from" required:"true" doc:"Address of the sender."`
	User     string    `yaml:"user" absent:"no login" doc:"User of the server."`
	Password SecretRef `yaml:"password" absent:"no login" doc:"Reference to the user's password."`
}
