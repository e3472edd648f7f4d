// Package logins is what the clients of logins/run.py have in common: one producer and one group
// member for each way to log in, until standard input ends.
//
// The only argument names a file with the logins; logins/plan.py writes it.  Lines are
// printed as logins/ledger.py describes.
package logins

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	tick     = 20 * time.Millisecond
	flushFor = 60 * time.Second
	patience = 10 * time.Second
)

var (
	padding = strings.Repeat(".", 80)
	mutex   sync.Mutex // guards standard output
)

// Login is one client: how it logs in, as whom, and its topic.
type Login struct {
	Mechanism   string
	Topic       string
	User        string
	Password    string
	Certificate string // a file with key and chain; "" unless the mechanism is SSL
}

// Plan is the file.
type Plan struct {
	Servers    map[string]string // by security protocol, divided by commas
	CA         string
	Tokens     string // where an identity provider gives tokens
	Rate       int    // records a second of each client
	Partitions int
	Logins     []Login
}

// Client is a producer and a group member of one library.
type Client interface {
	Send(number, partition int, value string)
	Flush(limit time.Duration) bool
	Close()
}

// Say prints a line.
func Say(kind string, login Login, format string, words ...any) {
	mutex.Lock()
	defer mutex.Unlock()
	now := time.Now().UnixMilli()
	fmt.Printf("%s %d %s %s\n", kind, now, login.Mechanism, fmt.Sprintf(format, words...))
}

// Short names an error on one line.
func Short(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}

// Addresses are those of the listener for this login.
func (p *Plan) Addresses(login Login) []string {
	if login.Certificate != "" {
		return strings.Split(p.Servers["SSL"], ",")
	}
	return strings.Split(p.Servers["SASL_SSL"], ",")
}

// TLS trusts the authority of the run, and shows the certificate of the login.
func (p *Plan) TLS(login Login) *tls.Config {
	pem, err := os.ReadFile(p.CA)
	must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	config := &tls.Config{RootCAs: roots}
	if login.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(login.Certificate, login.Certificate)
		must(err)
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

// Token asks the identity provider for a new one.
func (p *Plan) Token(user string) (string, error) {
	request, err := http.NewRequest("POST", p.Tokens, strings.NewReader(url.Values{
		"grant_type": {"client_credentials"}}.Encode()))
	if err != nil {
		return "", err
	}
	request.SetBasicAuth(user, "secret")
	client := http.Client{Timeout: patience}
	reply, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	var answer struct {
		Token string `json:"access_token"`
	}
	err = json.NewDecoder(reply.Body).Decode(&answer)
	return answer.Token, err
}

// Run starts a client for each login, and ends them all.
func Run(start func(*Plan, Login) Client) {
	text, err := os.ReadFile(os.Args[1])
	must(err)
	plan := new(Plan)
	must(json.Unmarshal(text, plan))
	stop := make(chan struct{})
	var produced sync.WaitGroup
	clients := []Client{}
	for _, login := range plan.Logins {
		client := start(plan, login)
		clients = append(clients, client)
		produced.Go(func() { produce(plan, login, client, stop) })
	}
	lines := bufio.NewScanner(os.Stdin)
	if lines.Scan() {
		close(stop)
		produced.Wait()
		for lines.Scan() {
		}
	}
	var closed sync.WaitGroup
	for _, client := range clients {
		closed.Go(client.Close)
	}
	closed.Wait()
}

func produce(plan *Plan, login Login, client Client, stop <-chan struct{}) {
	began, number := time.Now(), 0
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			if client.Flush(flushFor) {
				Say("D", login, "")
			}
			return
		case <-ticker.C:
			due := int(time.Since(began).Seconds() * float64(plan.Rate))
			for ; number < due; number++ {
				partition := number % plan.Partitions
				client.Send(number, partition, fmt.Sprintf("%s %d %s", login.User, number, padding))
			}
		}
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
