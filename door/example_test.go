package door_test

import (
	"fmt"
	"log"

	"github.com/doorward/doorward/door"
)

func ExampleDoor_Match() {
	d, err := door.New(door.Config{Routes: []string{"POST /login", "POST /api/token"}})
	if err != nil {
		log.Fatal(err)
	}
	for _, target := range []string{"/login", "//x/../%6Cogin;v=1?next=/", "/login-help", "/login%2F", "/files/a%2Fb"} {
		fmt.Println(target, d.Match(door.Request{Method: "POST", Host: "example.com", Target: target}))
	}
	// Output:
	// /login covered
	// //x/../%6Cogin;v=1?next=/ covered
	// /login-help none
	// /login%2F bad
	// /files/a%2Fb none
}

func ExampleNew() {
	_, err := door.New(door.Config{Routes: []string{"POST login"}})
	fmt.Println(err)
	// Output: door: Routes[0] "POST login": path must start with "/"
}

func ExampleOverlaps() {
	login, _ := door.New(door.Config{Routes: []string{"POST /login"}})
	users, _ := door.New(door.Config{Routes: []string{"POST /users/{id}/login"}})
	posts, _ := door.New(door.Config{Routes: []string{"POST /"}})
	fmt.Println(door.Overlaps(login, users), door.Overlaps(login, posts))
	// Output: false true
}
