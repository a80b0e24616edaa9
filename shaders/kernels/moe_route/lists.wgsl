// Lists of LIST entries in the order of choice, for 1, 2, 4 and 8.

#import moe_route/entries

alias List = array<entry, LIST>;

// Puts two entries of a list in order.
#block exchange(I, J)
    {
        let first = earlier(x[I], x[J]);
        x[J] = later(x[I], x[J]);
        x[I] = first;
    }
#end

// Keeps the earlier one of an entry of each list.
#block keep(I, J)
    x[I] = earlier(a[I], b[J]);
#end

// Sorts a list by a network of least exchanges.
fn in_order(given: List) -> List {
    var x = given;
#if LIST == 2
    #emit exchange(0, 1)
#endif
#if LIST == 4
    #emit exchange(0, 2)
    #emit exchange(1, 3)
    #emit exchange(0, 1)
    #emit exchange(2, 3)
    #emit exchange(1, 2)
#endif
#if LIST == 8
    #emit exchange(0, 2)
    #emit exchange(1, 3)
    #emit exchange(4, 6)
    #emit exchange(5, 7)
    #emit exchange(0, 4)
    #emit exchange(1, 5)
    #emit exchange(2, 6)
    #emit exchange(3, 7)
    #emit exchange(0, 1)
    #emit exchange(2, 3)
    #emit exchange(4, 5)
    #emit exchange(6, 7)
    #emit exchange(2, 4)
    #emit exchange(3, 5)
    #emit exchange(1, 4)
    #emit exchange(3, 6)
    #emit exchange(1, 2)
    #emit exchange(3, 4)
    #emit exchange(5, 6)
#endif
    return x;
}

// First entries of two sorted lists, sorted. The earlier one of each pair from opposite ends is one of them (Batcher 1968).
fn merged(a: List, b: List) -> List {
    var x = a;
#if LIST == 1
    #emit keep(0, 0)
#endif
#if LIST == 2
    #emit keep(0, 1)
    #emit keep(1, 0)
    #emit exchange(0, 1)
#endif
#if LIST == 4
    #emit keep(0, 3)
    #emit keep(1, 2)
    #emit keep(2, 1)
    #emit keep(3, 0)
    #emit exchange(0, 2)
    #emit exchange(1, 3)
    #emit exchange(0, 1)
    #emit exchange(2, 3)
#endif
#if LIST == 8
    #emit keep(0, 7)
    #emit keep(1, 6)
    #emit keep(2, 5)
    #emit keep(3, 4)
    #emit keep(4, 3)
    #emit keep(5, 2)
    #emit keep(6, 1)
    #emit keep(7, 0)
    #emit exchange(0, 4)
    #emit exchange(1, 5)
    #emit exchange(2, 6)
    #emit exchange(3, 7)
    #emit exchange(0, 2)
    #emit exchange(1, 3)
    #emit exchange(4, 6)
    #emit exchange(5, 7)
    #emit exchange(0, 1)
    #emit exchange(2, 3)
    #emit exchange(4, 5)
    #emit exchange(6, 7)
#endif
    return x;
}
