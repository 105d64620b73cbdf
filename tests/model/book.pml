/* The book's protocol (src/book/charges.cpp, processes.cpp) for a model checker: three processes charge and refund
 * one account, die between any two of their steps, are reaped by any number of the others at once, and their slots are
 * used again. Every step is one access to shared memory, as in the code. Checked in every order of steps:
 *   - what is used is never more than the limit, and always what the processes hold;
 *   - a dead process is refunded exactly what it held, once.
 * spin -a book.pml && gcc -O2 -DSAFETY -DCOLLAPSE -o book pan.c && ./book -m100000
 */
#define PROCESSES 3
#define LIMIT 2     /* so that charges are refused, too */
#define LOW 16      /* numbers in the usage word are kept modulo this */
#ifndef CHANGES
#define CHANGES 2   /* in each life */
#endif
#ifndef DEATHS
#define DEATHS 2    /* in all */
#endif

#define FREE 0
#define USED 1
#define DEAD 2

/* The usage word: always read and written as one. */
byte used, last, low;

/* The slots. */
byte life[PROCESSES], generation[PROCESSES];
byte change[PROCESSES], change_held[PROCESSES], held[PROCESSES], changes[PROCESSES], confirmed[PROCESSES];

/* Not in the book: the lock that a process holds while it lives, and what it holds in truth. */
bool alive[PROCESSES];
byte truth[PROCESSES];
byte deaths;

#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define exact() assert(used <= LIMIT && used == truth[0] + truth[1] + truth[2])
#define or_die() if :: true :: deaths < DEATHS -> deaths++; goto gone fi

/* Before the word seen_* is replaced: its last writer's slot says that the change in it was made. */
inline confirm() {
  number_of = change[seen_last];
  if
  :: number_of != 0 && number_of % LOW == seen_low -> skip
  :: else ->
    if
    :: life[seen_last] == DEAD ->
      number_of = change[seen_last];
      number_of = MAX(changes[seen_last], number_of) + 1;
      if :: number_of % LOW == seen_low -> skip :: else -> number_of = 0 fi
    :: else -> number_of = 0
    fi
  fi;
  if
  :: number_of != 0 && used == seen_used && last == seen_last && low == seen_low ->
    or_die();
    atomic { confirmed[seen_last] = MAX(confirmed[seen_last], number_of) }
  :: else -> skip
  fi;
  number_of = 0
}

inline read_usage() { atomic { seen_used = used; seen_last = last; seen_low = low } }

/* Charges one, or refunds one. */
inline make_change() {
  if :: true -> charge = true :: held[me] > 0 -> charge = false fi;
  number = changes[me] + 1;
  read_usage();
  made = false;
  do
  :: made || (charge && seen_used == LIMIT) -> break
  :: else ->
    if :: seen_last != me -> confirm() :: else -> skip fi;
    change_held[me] = (charge -> held[me] + 1 : held[me] - 1);
    or_die();
    change[me] = number;
    or_die();
    atomic {
      if
      :: used == seen_used && last == seen_last && low == seen_low ->
        used = (charge -> used + 1 : used - 1);
        last = me;
        low = number % LOW;
        truth[me] = (charge -> truth[me] + 1 : truth[me] - 1);
        made = true;
        exact()
      :: else -> seen_used = used; seen_last = last; seen_low = low
      fi
    }
  od;
  or_die();
  if
  :: made ->
    held[me] = change_held[me];
    or_die();
    changes[me] = number;
    or_die()
  :: else -> skip
  fi;
  change[me] = 0;
  number = 0;
  made = false
}

/* Refunds what the process of slot `other` held, and frees the slot. Its generation was read before its lock was seen
 * free. */
inline bury() {
  atomic {
    if
    :: life[other] == USED && generation[other] == seen_generation -> life[other] = DEAD
    :: else -> skip
    fi
  };
  or_die();
  if
  :: life[other] == DEAD && generation[other] == seen_generation ->
    read_usage();
    made = false;
    do
    :: made -> break
    :: else ->
      announced = change[other];
      number = MAX(changes[other], announced) + 1;
      proof = confirmed[other];
      if
      :: (seen_last == other && seen_low == number % LOW) || proof >= number -> break
      :: else -> skip
      fi;
      if
      :: announced != 0 && ((seen_last == other && seen_low == announced % LOW) || proof >= announced) ->
        amount = change_held[other]
      :: else -> amount = held[other]
      fi;
      if :: life[other] != DEAD || generation[other] != seen_generation || amount == 0 -> break :: else -> skip fi;
      confirm();
      or_die();
      atomic {
        if
        :: used == seen_used && last == seen_last && low == seen_low ->
          assert(amount == truth[other]);
          used = used - amount;
          last = other;
          low = number % LOW;
          truth[other] = 0;
          made = true;
          exact()
        :: else -> seen_used = used; seen_last = last; seen_low = low
        fi
      }
    od;
    or_die();
    atomic {
      if
      :: life[other] == DEAD && generation[other] == seen_generation ->
        assert(truth[other] == 0);
        life[other] = FREE;
        generation[other]++
      :: else -> skip
      fi
    }
  :: else -> skip
  fi;
  number = 0; announced = 0; proof = 0; amount = 0; seen_generation = 0; made = false
}

proctype Process(byte me, changes_left) {
  byte seen_used, seen_last, seen_low, number, number_of, announced, proof, amount, seen_generation, other;
  bool made, charge;
end_attach:
  atomic { life[me] == FREE && !alive[me] -> alive[me] = true };
  number = change[me];
  changes[me] = MAX(changes[me], number) + 1;
  held[me] = 0;
  change[me] = 0;
  number = 0;
  life[me] = USED;
  do
  :: changes_left > 0 -> changes_left--; make_change()
  :: true ->
    if :: other = (me + 1) % PROCESSES :: other = (me + 2) % PROCESSES fi;
    seen_generation = generation[other];
    if
    :: life[other] != FREE && !(life[other] == USED && alive[other]) -> bury()
    :: else -> seen_generation = 0
    fi;
    other = 0
  :: changes_left == 0 -> break
  od;
  goto end;
gone:
  atomic {
    alive[me] = false;
    seen_used = 0; seen_last = 0; seen_low = 0; number = 0; number_of = 0; announced = 0; proof = 0; amount = 0;
    seen_generation = 0; other = 0; made = false; charge = false;
    goto end_attach
  };
end:
  skip
}

init {
  atomic { run Process(0, CHANGES); run Process(1, CHANGES); run Process(2, CHANGES - 1) }
}
