// Dropout where elements move one by one.

#import dropout/single
#import dropout/vectors
