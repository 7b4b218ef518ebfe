package outcome_test

import (
	"fmt"
	"log"

	"github.com/doorward/doorward/outcome"
)

func ExampleClassifier_Classify() {
	failed, err := outcome.ParseStatuses("401,403")
	if err != nil {
		log.Fatal(err)
	}
	succeeded, header, err := outcome.ParseSucceeded("302,cookie:session")
	if err != nil {
		log.Fatal(err)
	}
	c, err := outcome.New(outcome.Rules{
		Failed:    outcome.Conditions{Status: failed},
		Succeeded: succeeded,
		Header:    header,
	})
	if err != nil {
		log.Fatal(err)
	}
	home, login := []string{"/home"}, []string{"/login?error"}
	fmt.Println(c.Classify(302, map[string][]string{"Location": home, "Set-Cookie": {"session=1f2e; HttpOnly"}}).Outcome)
	fmt.Println(c.Classify(302, map[string][]string{"Location": login, "Set-Cookie": {"session=; Max-Age=0"}}).Outcome)
	fmt.Println(c.Classify(200, nil).Outcome)
	// Output:
	// succeeded
	// failed
	// failed
}

func ExampleNew() {
	failed, _ := outcome.ParseStatuses("401")
	_, err := outcome.New(outcome.Rules{Failed: outcome.Conditions{Status: failed}})
	fmt.Println(err == outcome.ErrNoSuccess)
	// Output: true
}
